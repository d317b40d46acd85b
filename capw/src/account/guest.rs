//! The guest's API server, as an account needs it. Every call has a deadline, every answer a limit.

use std::time::Duration;

use api::capw::ProviderServiceAccount;
use api::names::annotation;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kit::apply::{is_already_exists, is_conflict, is_gone};
use kit::guest::{self, describe};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};

/// No call of a guest takes longer.
pub const CALL: Duration = Duration::from_secs(10);
/// No answer of a guest is larger: a Secret has at most one MiB, and base64 adds a third.
const MAX_ANSWER: usize = 2 << 20;
const MANAGER: &str = "capw/account";

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// Nobody answers, or nobody knows us.
    #[error("the cluster's API server does not answer: {0}")]
    Unreachable(String),
    /// The API server does not take this one.
    #[error("in the cluster: {0}")]
    Refused(String),
}

/// A guest's API server.
pub struct Guest {
    client: Client,
}

/// Sends a request; the inner error is one that the guest answered with.
async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<kube::Result<T>, GuestError> {
    call_within(CALL, request).await
}

async fn call_within<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<kube::Result<T>, GuestError> {
    match tokio::time::timeout(limit, request).await {
        Err(_) => Err(GuestError::Unreachable(format!("no answer within {} s", limit.as_secs()))),
        Ok(Err(error)) if !is_answer(&error) => Err(GuestError::Unreachable(describe(&error))),
        Ok(answer) => Ok(answer),
    }
}

fn is_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code != 401 && status.code < 500)
}

fn refused(what: &str, error: &kube::Error) -> GuestError {
    GuestError::Refused(format!("{what}: {}", describe(error)))
}

impl Guest {
    /// The API server at `server`, with the credentials of Cluster API's Secret; no request is sent yet.
    pub async fn connect(kubeconfig: &Secret, server: &str) -> Result<Self, String> {
        let text = kubeconfig.data.as_ref().and_then(|data| data.get(guest::KEY));
        let text = text.and_then(|value| std::str::from_utf8(&value.0).ok());
        let text = text.ok_or_else(|| format!("it has no key {}", guest::KEY))?;
        let config = guest::config(text, server).await?;
        let client = kit::client::bounded(config, MAX_ANSWER);
        Ok(Self { client: client.map_err(|error| guest::bounded(&error.to_string()))? })
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A Secret, if it is there.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, GuestError> {
        let found = call(self.secrets(namespace).get_opt(name)).await?;
        found.map_err(|error| refused(&format!("reading Secret {namespace}/{name}"), &error))
    }

    /// Makes a Secret so: `live` is overwritten as it was read, and nothing if there was none. Its namespace is made
    /// if it is missing.
    pub async fn write(&self, secret: &Secret, live: Option<&Secret>) -> Result<(), GuestError> {
        let namespace = secret.namespace().unwrap_or_default();
        let written = match live {
            Some(live) => self.overwrite(secret, live).await?,
            None => match self.create(secret).await? {
                Err(error) if is_gone(&error) => {
                    self.create_namespace(&namespace).await?;
                    self.create(secret).await?
                }
                created => created,
            },
        };
        written.map_err(|error| refused(&format!("writing Secret {namespace}/{}", secret.name_any()), &error))
    }

    async fn create(&self, secret: &Secret) -> Result<kube::Result<()>, GuestError> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let secrets = self.secrets(&secret.namespace().unwrap_or_default());
        Ok(call(secrets.create(&params, secret)).await?.map(drop))
    }

    async fn overwrite(&self, secret: &Secret, live: &Secret) -> Result<kube::Result<()>, GuestError> {
        let mut secret = secret.clone();
        secret.metadata.uid = live.uid();
        secret.metadata.resource_version = live.resource_version();
        let secrets = self.secrets(&secret.namespace().unwrap_or_default());
        let params = PatchParams::apply(MANAGER).force();
        Ok(call(secrets.patch(&secret.name_any(), &params, &Patch::Apply(&secret))).await?.map(drop))
    }

    async fn create_namespace(&self, name: &str) -> Result<(), GuestError> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match call(Api::<Namespace>::all(self.client.clone()).create(&params, &namespace)).await? {
            Err(error) if !is_already_exists(&error) => {
                Err(refused(&format!("making namespace {name}"), &error))
            }
            _ => Ok(()),
        }
    }

    /// Deletes the Secret that holds the account's token, if there is one; true if it is gone now.
    pub async fn remove(&self, account: &ProviderServiceAccount) -> Result<bool, GuestError> {
        let (namespace, name) = (&account.spec.target_namespace, &account.spec.target_secret_name);
        let Some(live) = self.secret(namespace, name).await?.filter(|live| is_of(live, account)) else {
            return Ok(false);
        };
        let preconditions = Some(Preconditions { uid: live.uid(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        match call(self.secrets(namespace).delete(name, &params)).await? {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) || is_conflict(&error) => Ok(false),
            Err(error) => Err(refused(&format!("deleting Secret {namespace}/{name}"), &error)),
        }
    }
}

/// What marks the guest's Secret of an account. No uid is in it: an account keeps its Secret when it moves.
pub fn mark(account: &ProviderServiceAccount) -> String {
    format!("{}/{}", account.namespace().unwrap_or_default(), account.name_any())
}

/// Whether the guest's Secret is that of the account.
pub fn is_of(secret: &Secret, account: &ProviderServiceAccount) -> bool {
    secret.annotations().get(annotation::PROVIDER_SERVICE_ACCOUNT).is_some_and(|of| *of == mark(account))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[tokio::test]
    async fn a_guest_that_hangs_is_waited_for_so_long_and_no_longer() {
        let hangs = std::future::pending::<kube::Result<()>>();
        let late = call_within(Duration::from_millis(1), hangs).await.unwrap_err();
        assert_eq!(late, GuestError::Unreachable("no answer within 0 s".into()));
        assert!(CALL * 4 < Duration::from_mins(1), "a reconcile has time for every call");
    }

    #[tokio::test]
    async fn a_guest_that_refuses_answers_and_one_in_trouble_does_not() {
        let answered = async |code| {
            let status = Status::failure("a\nb", "Reason").with_code(code);
            call(async { kube::Result::<()>::Err(kube::Error::Api(Box::new(status))) }).await
        };
        for code in [403, 404, 409, 422] {
            assert!(answered(code).await.is_ok(), "{code}");
        }
        for code in [401, 500, 503] {
            assert_eq!(answered(code).await.unwrap_err(), GuestError::Unreachable("a b".into()), "{code}");
        }
    }
}
