//! Reads the Secret that contains the encryption keys, or generates a key for a new cluster. A new key is stored when the plan is
//! carried out.

use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use api::names;
use k8s_openapi::api::core::v1::Secret;
use kit::apply;
use kit::bounded::{Budget, ComputationLimits, compute};
use kube::ResourceExt;
use zeroize::Zeroizing;

use super::configuration;
use crate::cluster::cluster_secret::{refuse_leftover, text, wrong};
use crate::cluster::error::Error;
use crate::cluster::facts::Facts;
use crate::cluster::node_groups::api_server::{ENCRYPTION, ENCRYPTION_FILE};

/// The maximum size, in bytes, of a configuration.
const LONGEST: usize = 32 << 10;
/// The limits for one check.
const LIMITS: ComputationLimits = ComputationLimits { bytes: 1 << 20, time: Duration::from_secs(10) };
/// The interval at which the Secret is read again. Watches don't report the Secret's deletion.
pub const CHECK_INTERVAL: Duration = Duration::from_hours(1);

/// The encryption state of a cluster. A contained key can't be printed, and is wiped from memory when it is dropped.
#[derive(Default)]
pub struct Encryption {
    /// A new cluster's configuration that isn't in a Secret yet.
    pub new_configuration: Option<Zeroizing<String>>,
    /// The reason why new nodes of an existing control plane can't use the Secret: the Secret's name, the fault and the remedy.
    pub unusable: Option<String>,
}

/// Reads the keys. Generates a key for a new cluster without a Secret.
///
/// # Errors
/// Fails if a new cluster's Secret can't be used.
pub async fn gather(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    api: &apply::Api,
) -> Result<Encryption, Error> {
    let has_data = facts.control_plane.is_some() || facts.is_initialized();
    let namespace = tkc.namespace();
    let secret = api.get(namespace.as_deref(), &names::encryption_secret(&tkc.name_any())).await?;
    let of = tkc.clone();
    compute(namespace.as_deref().unwrap_or_default(), LIMITS, move |budget| {
        read(&of, secret.as_ref(), has_data, budget)
    })
    .await
}

/// Checks the Secret. `has_data` is true if etcd may contain encrypted Secrets.
fn read(
    tkc: &TanzuKubernetesCluster,
    secret: Option<&Secret>,
    has_data: bool,
    budget: &Budget,
) -> Result<Encryption, Error> {
    let mut encryption = Encryption::default();
    match (secret, has_data) {
        (None, true) => encryption.unusable = Some(describe_missing(tkc)),
        (None, false) => encryption.new_configuration = Some(configuration::generate()),
        (Some(secret), true) => match check(secret, budget) {
            Err(Error::Secret(why)) => encryption.unusable = Some(why),
            checked => checked?,
        },
        (Some(secret), false) => {
            refuse_leftover(tkc, secret)?;
            check(secret, budget)?;
        }
    }
    Ok(encryption)
}

fn check(secret: &Secret, budget: &Budget) -> Result<(), Error> {
    let found = match text(secret, ENCRYPTION, LONGEST, budget)? {
        None => "no text",
        Some(text) => match configuration::check(&text, budget) {
            Ok(()) => return Ok(()),
            Err(found) => found,
        },
    };
    Err(wrong(
        secret,
        &format!(
            "has {found} at key {ENCRYPTION}. Set it to an EncryptionConfiguration with all keys that encrypted Secrets of the cluster"
        ),
    ))
}

fn describe_missing(tkc: &TanzuKubernetesCluster) -> String {
    format!(
        "{}/{} does not exist. It holds the keys that encrypt the Secrets of the cluster, and new control plane nodes cannot start without them. Create it again, at key {ENCRYPTION}, from a backup or from the file {ENCRYPTION_FILE} of a control plane node",
        tkc.namespace().unwrap_or_default(),
        names::encryption_secret(&tkc.name_any()),
    )
}

#[cfg(test)]
mod tests {
    use kit::apply::build_controller_reference;

    use super::*;
    use crate::cluster::fixtures::{secret, stored};
    use crate::testing::sound;

    fn of(secret: Option<&Secret>, has_data: bool) -> Result<Encryption, Error> {
        read(&stored(sound()), secret, has_data, &Budget::new(LIMITS.bytes))
    }

    #[test]
    fn only_a_cluster_without_a_control_plane_gets_a_key() {
        let new = of(None, false).unwrap();
        let configuration = new.new_configuration.unwrap();
        assert_eq!(new.unusable, None);
        let there = secret("c-encryption", &[(ENCRYPTION, &configuration)]);
        for has_data in [false, true] {
            let kept = of(Some(&there), has_data).unwrap();
            assert!(kept.new_configuration.is_none() && kept.unusable.is_none());
        }
        let lost = of(None, true).unwrap();
        assert!(lost.new_configuration.is_none(), "the Secrets in etcd are encrypted with another");
        let why = lost.unusable.unwrap();
        assert!(why.starts_with("ns/c-encryption does not exist."), "{why}");
        assert!(why.contains("/etc/kubernetes/api-server/encryption.yaml of a control plane node"), "{why}");
    }

    #[test]
    fn a_secret_that_cannot_be_used_is_named_with_its_key_and_never_printed() {
        for (data, part) in [
            (&[("config", "hidden")][..], "ns/c-encryption has no text at key encryption.yaml"),
            (&[(ENCRYPTION, "hidden")], "ns/c-encryption has a text that is no EncryptionConfiguration"),
            (&[(ENCRYPTION, &"hidden".repeat(10_000))], "has 60000 bytes at key encryption.yaml"),
        ] {
            let wrong = secret("c-encryption", data);
            let error = of(Some(&wrong), false).err().unwrap();
            assert!(matches!(error, Error::Secret(_)), "it stops a new cluster");
            let reported = of(Some(&wrong), true).unwrap();
            assert!(reported.new_configuration.is_none());
            let why = reported.unusable.unwrap();
            assert_eq!(error.to_string(), format!("Secret {why}"), "and is reported of another");
            assert!(why.contains(part) && !why.contains("hidden"), "{why}");
        }
    }

    #[test]
    fn the_key_of_a_former_cluster_of_the_name_is_not_used() {
        let tkc = stored(sound());
        let mut former = secret("c-encryption", &[(ENCRYPTION, &configuration::generate())]);
        former.metadata.owner_references = Some(vec![build_controller_reference(&tkc)]);
        assert!(of(Some(&former), false).is_ok());
        former.metadata.owner_references.as_mut().unwrap()[0].uid = "former".to_owned();
        assert!(matches!(of(Some(&former), false), Err(Error::Settling(_))));
    }
}
