//! The Secret with the keys, as it is created.

use api::names;
use k8s_openapi::api::core::v1::Secret;

use super::gather::Encryption;
use crate::cluster::cluster_secret::{OPAQUE, new_secret};
use crate::cluster::input::Input;
use crate::cluster::node_groups::api_server::ENCRYPTION;

/// Returns the Secret with the keys of a cluster, if it does not exist yet.
pub fn secret(input: &Input<'_>, encryption: &Encryption) -> Option<Secret> {
    let configuration = encryption.new_configuration.as_ref()?;
    let name = names::encryption_secret(&input.name());
    Some(new_secret(input, &name, OPAQUE, &[(ENCRYPTION, configuration)]))
}
