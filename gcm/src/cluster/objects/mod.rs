//! The objects a cluster is made of.
//!
//! They are built as the generated types, so that a field Cluster API does not know fails to compile.

pub mod accounts;
pub mod addons;
pub mod bootstrap;
pub mod cluster;
pub mod control_plane;
pub mod group_input;
pub mod input;
pub mod login;
pub mod machines;
pub mod node_file;
pub mod proxy;
pub mod recipe;
pub mod virtual_ip;
pub mod volumes;
pub mod workers;
