//! What the node groups of one cluster are made from.

use std::collections::BTreeSet;

use crate::cluster::flags::health::HealthFlags;
use crate::cluster::input::Input;
use crate::cluster::login::gather::Login;
use crate::cluster::network::virtual_ip::VirtualIp;

/// Everything that the control plane and the pools of one cluster are made from.
#[derive(Clone, Copy)]
pub struct GroupInput<'a> {
    /// What all objects of the cluster are made from.
    pub cluster: Input<'a>,
    /// Whether the control plane stays at its release.
    pub control_plane_waits: bool,
    /// Whether pools stay at their release.
    pub pools_wait: bool,
    /// When its nodes are replaced.
    pub health: &'a HealthFlags,
    /// What holds the address of its control plane.
    pub virtual_ip: &'a VirtualIp,
    /// The pools of which no node is replaced at the moment, by name.
    pub unreplaced: &'a BTreeSet<String>,
    /// How people get into its nodes.
    pub login: &'a Login,
}
