//! The encryption of Secrets in the etcd of a cluster: the Secret with the keys.
//!
//! gcm creates it once. A cluster whose control plane exists never gets another key: its API servers could not read what the
//! former key encrypted.

pub mod configuration;
pub mod gather;
pub mod objects;
