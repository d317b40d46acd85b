//! The kinds of Cluster API that we read or write, v1beta2, generated from its own CRDs.
//!
//! `hack/generate` writes them; names are long because they spell out the path of each field.

pub use crate::generated::{
    clusters::*, ipaddressclaims::*, ipaddresses::*, kubeadmconfigtemplates::*, kubeadmcontrolplanes::*,
    machinedeployments::*, machinehealthchecks::*, machines::*, machinesets::*, shared::*,
};

/// The API group of Cluster, Machine and their like.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The API group of claims of addresses, addresses, and the pools that they come from.
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
