//! The login on a cluster's nodes: the user, and the Secrets that contain the credentials.

pub mod gather;
pub mod objects;
