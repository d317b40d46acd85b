//! Interprets TanzuKubernetesCluster fields. Both admission and planning depend on this module.

pub mod authentication;
pub mod flannel;
pub mod groups;
pub mod labels;
pub mod network;
pub mod node_fields;
pub mod release;
