//! The meaning of the fields of a TanzuKubernetesCluster. Admission and planning share this module, so it is below both.

pub mod authentication;
pub mod groups;
pub mod labels;
pub mod network;
pub mod node_fields;
pub mod records;
pub mod release;
