//! Stories about a cluster from its manifest to its deletion: admission, changes, upgrades.

mod admission;
mod api_server;
mod autoscaler;
mod cold_caches;
mod day_two;
mod day_two_causes;
mod idle;
mod life;
mod lint;
mod login;
mod node_images;
mod node_pools;
mod objects;
pub mod plain;
mod release_upgrade;
