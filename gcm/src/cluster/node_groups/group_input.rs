//! The input for the node groups of one cluster.

use std::collections::BTreeSet;

use api::capi::KubeadmControlPlane;

use super::api_server::{ApiServerFeatures, reads_authentication};
use crate::cluster::flags::health::HealthFlags;
use crate::cluster::input::Input;
use crate::cluster::login::gather::Login;
use crate::cluster::network::virtual_ip::VirtualIp;
use crate::spec::authentication::is_supported;

/// The input for the control plane and the pools of one cluster.
#[derive(Clone, Copy)]
pub struct GroupInput<'a> {
    /// The input for all objects of the cluster.
    pub cluster: Input<'a>,
    /// True while the control plane stays at its release.
    pub control_plane_waits: bool,
    /// True while pools stay at their release.
    pub pools_wait: bool,
    /// When its nodes are replaced.
    pub health: &'a HealthFlags,
    /// The program that holds the address of its control plane.
    pub virtual_ip: &'a VirtualIp,
    /// The pools of which no node is replaced at the moment, by name.
    pub unreplaced: &'a BTreeSet<String>,
    /// The login on its nodes.
    pub login: &'a Login,
    /// What its API servers do.
    pub api_server: ApiServerFeatures,
}

impl GroupInput<'_> {
    /// Returns true if the API servers of this control plane are to read a configuration of issuers and do not yet. Its nodes are
    /// replaced for it, once.
    pub fn gains_authentication(&self, live: &KubeadmControlPlane) -> bool {
        let is_wanted = self.api_server.authentication && is_supported(&self.cluster.release.kubernetes);
        is_wanted && !reads_authentication(live)
    }
}
