//! Cluster API v1beta2 kinds that Layercake reads or writes, generated from Cluster API's CRDs.
//!
//! `hack/generate` writes them. Type names are long because they contain the path of each field.

pub use crate::generated::{
    clusters::*, ipaddressclaims::*, ipaddresses::*, kubeadmconfigtemplates::*, kubeadmcontrolplanes::*,
    machinedeployments::*, machinehealthchecks::*, machines::*, machinesets::*, shared::*,
};

/// The API group of Cluster, Machine and related kinds.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The API group of IPAddressClaim, IPAddress and the pool kinds.
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
