//! Manifests, and the API server of a kubeconfig: connections, errors that name the cause, warnings and writes.

pub mod apply;
pub mod connection;
pub mod manifest;
pub(crate) mod reach;
pub mod warnings;
