//! Encrypts the Secrets in a cluster's etcd: manages the Secret that contains the keys.
//!
//! gcm creates this Secret once. A cluster whose control plane exists never gets another key, because its API servers couldn't
//! read data that the former key encrypted.

pub mod configuration;
pub mod gather;
pub mod objects;
