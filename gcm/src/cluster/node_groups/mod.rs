//! The control plane and the node pools of a cluster.
//!
//! [`groups`] decides how each group's objects are planned. The other files build the objects as generated types, so that a
//! field unknown to Cluster API fails to compile.

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
