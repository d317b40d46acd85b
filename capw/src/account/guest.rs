//! Reads and writes the account's Secret in the workload cluster, through [`kit::guest`].

use std::collections::BTreeMap;
use std::time::Duration;

use api::capw::ProviderServiceAccount;
use api::names::annotation;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kit::guest::{self, ApiRejection, GuestError, Keys, Metadata};
use kube::api::{DeleteParams, GetParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

/// The timeout of one request. A reconcile sends up to four requests within its own deadline.
pub const CALL: Duration = Duration::from_secs(10);
/// The maximum size, in bytes, of a Secret that is read. A Secret is limited to 1 MiB, and base64 adds a third.
const MAX_SECRET: usize = 2 << 20;
const MANAGER: &str = "capw/account";

/// A client for a workload cluster's API server.
pub struct AccountSecretClient(guest::GuestClient);

/// The annotation that identifies a Secret's account.
struct Mark;

impl Keys for Mark {
    const KEYS: &'static [&'static str] = &[annotation::PROVIDER_SERVICE_ACCOUNT];
}

/// The parts of a Secret that are read: its identity, and the keys that capw writes.
#[derive(Deserialize)]
struct FoundSecret {
    metadata: Metadata<Mark>,
    #[serde(default)]
    data: Option<FoundData>,
}

#[derive(Deserialize)]
struct FoundData {
    #[serde(rename = "ca.crt")]
    authority: Option<ByteString>,
    namespace: Option<ByteString>,
    token: Option<ByteString>,
}

impl From<FoundSecret> for Secret {
    fn from(found: FoundSecret) -> Self {
        let FoundSecret { metadata, data } = found;
        let key = annotation::PROVIDER_SERVICE_ACCOUNT;
        let mark = metadata.annotations.get(key).map(|mark| (key.to_owned(), mark.to_owned()));
        let pairs = data.map(|FoundData { authority, namespace, token }| {
            [("ca.crt", authority), ("namespace", namespace), ("token", token)]
        });
        let pairs = pairs.into_iter().flatten();
        let data =
            pairs.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<BTreeMap<_, _>>();
        Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                annotations: mark.map(|mark| BTreeMap::from([mark])),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..Self::default()
        }
    }
}

/// Adds `what`, a description of the request, to the message if the API server refused the request.
fn named(what: &str, error: GuestError) -> GuestError {
    match error {
        GuestError::Refused(refusal) => {
            GuestError::Refused(ApiRejection { message: format!("{what}: {refusal}"), ..refusal })
        }
        error @ GuestError::Unreachable(_) => error,
    }
}

fn has_code(result: &Result<(), GuestError>, code: u16) -> bool {
    matches!(result, Err(GuestError::Refused(refusal)) if refusal.code == code)
}

fn secrets(namespace: &str) -> Request {
    Request::new(Secret::url_path(&(), Some(namespace)))
}

impl AccountSecretClient {
    /// Returns a client for the API server at URL `server`, with the credentials from Cluster API's kubeconfig Secret. Doesn't
    /// send a request yet.
    pub async fn connect(
        namespace: &str,
        cluster: &str,
        kubeconfig: &Secret,
        server: &str,
    ) -> Result<Self, String> {
        guest::GuestClient::connect(namespace, cluster, kubeconfig, server, CALL).await.map(Self)
    }

    /// Reads a Secret, limited to its identity and the keys that capw writes.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, GuestError> {
        let request = secrets(namespace).get(name, &GetParams::default());
        let found = self.0.read_if_there::<FoundSecret>(request, MAX_SECRET).await;
        let found = found.map_err(|error| named(&format!("reading Secret {namespace}/{name}"), error))?;
        Ok(found.map(Secret::from))
    }

    /// Writes a Secret. With `live`, overwrites exactly that version. Otherwise creates the Secret, and the namespace if it
    /// doesn't exist.
    pub async fn write(&self, secret: &Secret, live: Option<&Secret>) -> Result<(), GuestError> {
        let namespace = secret.namespace().unwrap_or_default();
        let written = match live {
            Some(live) => self.overwrite(secret, live).await,
            None => match self.create(secret).await {
                missing if has_code(&missing, 404) => {
                    self.create_namespace(&namespace).await?;
                    self.create(secret).await
                }
                created => created,
            },
        };
        written.map_err(|error| named(&format!("writing Secret {namespace}/{}", secret.name_any()), error))
    }

    async fn create(&self, secret: &Secret) -> Result<(), GuestError> {
        self.post(&secrets(&secret.namespace().unwrap_or_default()), secret).await
    }

    async fn post(&self, at: &Request, object: &impl Serialize) -> Result<(), GuestError> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let body = serde_json::to_vec(object).map_err(|error| ApiRejection::new(&error.to_string()))?;
        self.0.send(at.create(&params, body)).await
    }

    async fn overwrite(&self, secret: &Secret, live: &Secret) -> Result<(), GuestError> {
        let mut secret = secret.clone();
        secret.metadata.uid = live.uid();
        secret.metadata.resource_version = live.resource_version();
        let at = secrets(&secret.namespace().unwrap_or_default());
        let params = PatchParams::apply(MANAGER).force();
        self.0.send(at.patch(&secret.name_any(), &params, &Patch::Apply(&secret))).await
    }

    async fn create_namespace(&self, name: &str) -> Result<(), GuestError> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        match self.post(&Request::new(Namespace::url_path(&(), None)), &namespace).await {
            there if has_code(&there, 409) => Ok(()),
            created => created.map_err(|error| named(&format!("creating namespace {name}"), error)),
        }
    }

    /// Deletes the Secret that contains the account's token. Returns true if this call deleted it. Secrets of other accounts
    /// are kept.
    pub async fn remove(&self, account: &ProviderServiceAccount) -> Result<bool, GuestError> {
        let (namespace, name) = (&account.spec.target_namespace, &account.spec.target_secret_name);
        let Some(live) = self.secret(namespace, name).await?.filter(|live| is_of(live, account)) else {
            return Ok(false);
        };
        let preconditions = Some(Preconditions { uid: live.uid(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        match self.0.send(secrets(namespace).delete(name, &params)).await {
            gone if has_code(&gone, 404) || has_code(&gone, 409) => Ok(false),
            deleted => {
                let deleted =
                    deleted.map_err(|error| named(&format!("deleting Secret {namespace}/{name}"), error));
                deleted.map(|()| true)
            }
        }
    }
}

/// Returns the annotation value that identifies an account's Secret. The value doesn't contain a UID, so that an account keeps
/// its Secret when the account is moved.
pub fn mark(account: &ProviderServiceAccount) -> String {
    format!("{}/{}", account.namespace().unwrap_or_default(), account.name_any())
}

/// Returns true if the Secret belongs to the account.
pub fn is_of(secret: &Secret, account: &ProviderServiceAccount) -> bool {
    secret.annotations().get(annotation::PROVIDER_SERVICE_ACCOUNT).is_some_and(|of| *of == mark(account))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::account::credentials::AccountCredentials;

    #[test]
    fn a_reconcile_has_time_for_every_call() {
        assert!(CALL * 4 < Duration::from_mins(1));
    }

    #[test]
    fn of_a_guests_secret_only_the_account_s_part_is_read() {
        let secret = json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "annotations": {annotation::PROVIDER_SERVICE_ACCOUNT: "ns/a", "other": "x"}},
            "data": {"ca.crt": "YQ==", "namespace": "Yg==", "token": "Yw==", "more": "ZA=="},
        });
        let read: Secret = serde_json::from_value::<FoundSecret>(secret).unwrap().into();
        assert_eq!((read.uid().as_deref(), read.resource_version().as_deref()), (Some("u"), Some("7")));
        assert_eq!(read.annotations().len(), 1);
        assert!(AccountCredentials::of(&read).is_some());
        assert_eq!(read.data.map(|data| data.len()), Some(3));
        let empty = serde_json::from_value::<FoundSecret>(json!({"metadata": {}, "data": null})).unwrap();
        assert!(AccountCredentials::of(&Secret::from(empty)).is_none());
    }
}
