//! Stories about the `layercake` command, with and without a cluster.

mod bootstrap;
mod bundle;
mod clusters;
mod doctor;
mod examples;
mod image_import;
mod layercake_command;
mod new_cluster;
mod shared_pool;
pub mod site;
