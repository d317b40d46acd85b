//! What a cluster has in its guest besides nodes: add-ons, objects of its namespace, and accounts for its programs.

pub mod accounts;
pub mod addons;
pub mod synced;
