//! The input for the node groups of one cluster.

use std::collections::BTreeSet;

use crate::cluster::flags::health::HealthFlags;
use crate::cluster::input::Input;
use crate::cluster::login::gather::Login;
use crate::cluster::network::virtual_ip::VirtualIp;

/// The input for one cluster's control plane and pools.
#[derive(Clone, Copy)]
pub struct GroupInput<'a> {
    pub cluster: Input<'a>,
    /// True while the control plane stays at its release.
    pub control_plane_waits: bool,
    /// True while pools stay at their release.
    pub pools_wait: bool,
    /// The settings for node remediation.
    pub health: &'a HealthFlags,
    /// The setup for the control plane's virtual IP.
    pub virtual_ip: &'a VirtualIp,
    /// The names of pools whose nodes aren't replaced at the moment, because the remediation budget is spent.
    pub unreplaced: &'a BTreeSet<String>,
    pub login: &'a Login,
}
