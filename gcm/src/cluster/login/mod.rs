//! The login on the nodes of a cluster: its Secrets and its user.

pub mod gather;
pub mod objects;
