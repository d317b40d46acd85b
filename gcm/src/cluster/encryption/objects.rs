//! Builds the Secret that contains the encryption keys.

use api::names;
use k8s_openapi::api::core::v1::Secret;

use super::gather::Encryption;
use crate::cluster::cluster_secret::{OPAQUE, new_secret};
use crate::cluster::input::Input;
use crate::cluster::node_groups::api_server::ENCRYPTION;

/// Returns the Secret that contains a cluster's keys, if it doesn't exist yet.
pub fn secret(input: &Input<'_>, encryption: &Encryption) -> Option<Secret> {
    let configuration = encryption.new_configuration.as_ref()?;
    let name = names::encryption_secret(&input.name());
    Some(new_secret(input, &name, OPAQUE, &[(ENCRYPTION, configuration)]))
}
