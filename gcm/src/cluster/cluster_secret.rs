//! Secrets that a cluster finds by its name. They are read by name, because no watch keeps Secrets, and created if they are missing.

use std::collections::BTreeMap;
use std::fmt;

use api::gcm::TanzuKubernetesCluster;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kit::bounded::Budget;
use kit::controller::controller_of;
use kit::events::named;
use kube::{Resource, ResourceExt};
use zeroize::Zeroizing;

use super::error::Error;
use super::input::Input;

/// The type of a Secret that has no special one.
pub const OPAQUE: &str = "Opaque";

/// Secrets that are created in this order.
pub struct NewSecrets(pub Vec<Secret>);

/// Omits their content.
impl fmt::Debug for NewSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(ResourceExt::name_any)).finish()
    }
}

/// Returns a Secret that belongs to the cluster.
pub fn new_secret(input: &Input<'_>, name: &str, type_: &str, data: &[(&str, &str)]) -> Secret {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        metadata: input.metadata(name, &[]),
        type_: Some(type_.to_owned()),
        data: Some(data.collect::<BTreeMap<_, _>>()),
        ..Secret::default()
    }
}

/// Refuses a Secret of a former cluster of this name. The garbage collector is about to delete it.
///
/// # Errors
/// [`Error::Settling`].
pub fn refuse_leftover(tkc: &TanzuKubernetesCluster, secret: &Secret) -> Result<(), Error> {
    let of_same_name = controller_of::<TanzuKubernetesCluster, Secret>(secret)
        .is_some_and(|owner| owner.name == tkc.name_any());
    let is_ours = secret.owner_references().iter().any(|owner| Some(&owner.uid) == tkc.meta().uid.as_ref());
    let former = of_same_name && !is_ours;
    if former || secret.meta().deletion_timestamp.is_some() {
        let name = named(secret);
        return Err(Error::Settling(format!(
            "the deletion of {name}, which belonged to a former cluster of this name"
        )));
    }
    Ok(())
}

/// Returns the text at a key, if there is one.
///
/// # Errors
/// One with more than so many bytes.
pub fn text(
    secret: &Secret,
    key: &str,
    most: usize,
    budget: &Budget,
) -> Result<Option<Zeroizing<String>>, Error> {
    let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(key)) else { return Ok(None) };
    if bytes.0.len() > most {
        let found = bytes.0.len();
        return Err(wrong(
            secret,
            &format!("has {found} bytes at key {key}; the limit is {most}. Use a shorter value"),
        ));
    }
    budget.spend(bytes.0.len())?;
    Ok(String::from_utf8(bytes.0.clone()).ok().map(Zeroizing::new))
}

/// Returns the error about a Secret that cannot be used.
pub fn wrong(secret: &Secret, what: &str) -> Error {
    let namespace = secret.namespace().unwrap_or_default();
    Error::Secret(format!("{namespace}/{} {what}", secret.name_any()))
}
