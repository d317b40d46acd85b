//! The control plane and the node pools of a cluster.
//!
//! [`groups`] decides the objects of each group; the files beside it build them as the generated types, so that a field that
//! Cluster API does not know fails to compile.

pub mod api_server;
pub mod bootstrap;
pub mod control_plane;
pub mod group_input;
pub mod groups;
pub mod machines;
pub mod nodes;
pub mod pace;
pub mod recipe;
pub mod replicas;
pub mod workers;
