//! What the fields of a TanzuKubernetesCluster mean. Admission and planning share it, so it is below both.

pub mod groups;
pub mod labels;
pub mod network;
pub mod node_fields;
pub mod release;
