//! A cluster's Secrets with fixed names. They aren't cached: gcm reads each by its name, and creates those that don't exist.

use std::collections::BTreeMap;
use std::fmt;

use api::gcm::TanzuKubernetesCluster;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kit::bounded::Budget;
use kit::controller::controller_of;
use kit::events::describe_object;
use kube::{Resource, ResourceExt};
use zeroize::Zeroizing;

use super::error::Error;
use super::input::Input;

/// The type of a generic Secret.
pub const OPAQUE: &str = "Opaque";

/// Secrets to create, in this order.
pub struct NewSecrets(pub Vec<Secret>);

/// Prints only the names, because the contents are secret.
impl fmt::Debug for NewSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(ResourceExt::name_any)).finish()
    }
}

/// Returns a Secret that the cluster controls.
pub fn new_secret(input: &Input<'_>, name: &str, type_: &str, data: &[(&str, &str)]) -> Secret {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        metadata: input.metadata(name, &[]),
        type_: Some(type_.to_owned()),
        data: Some(data.collect::<BTreeMap<_, _>>()),
        ..Secret::default()
    }
}

/// Rejects a Secret that belongs to a former cluster with the same name. The garbage collector is about to delete such a Secret.
///
/// # Errors
/// Returns [`Error::Settling`] if the Secret belongs to a former cluster or is being deleted.
pub fn refuse_leftover(tkc: &TanzuKubernetesCluster, secret: &Secret) -> Result<(), Error> {
    let of_same_name = controller_of::<TanzuKubernetesCluster, Secret>(secret)
        .is_some_and(|owner| owner.name == tkc.name_any());
    let is_ours = secret.owner_references().iter().any(|owner| Some(&owner.uid) == tkc.meta().uid.as_ref());
    let former = of_same_name && !is_ours;
    if former || secret.meta().deletion_timestamp.is_some() {
        let name = describe_object(secret);
        return Err(Error::Settling(format!(
            "the deletion of {name}, which belonged to a former cluster of this name"
        )));
    }
    Ok(())
}

/// Returns the string at a key. Returns `None` if the key is missing or its value isn't UTF-8.
///
/// # Errors
/// Fails if the value is longer than `most` bytes or exceeds the budget.
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

/// Returns the error for a Secret that can't be used. `what` describes the fault and the remedy, and follows the Secret's name.
pub fn wrong(secret: &Secret, what: &str) -> Error {
    let namespace = secret.namespace().unwrap_or_default();
    Error::Secret(format!("{namespace}/{} {what}", secret.name_any()))
}
