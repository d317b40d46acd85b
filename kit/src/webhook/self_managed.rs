//! Creates a webhook certificate if there isn't a mounted one. The certificate is kept in a Secret
//! that all replicas share, renewed before it expires, and presented without a restart. The program adds the authority
//! to its webhook configurations and to the CustomResourceDefinition whose objects it converts.
//!
//! Replicas coordinate only through the Secret: the first write wins, and all replicas present the written certificate.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::{ByteString, ClusterResourceScope};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::bundle::CertBundle;
use crate::retry::Failures;
use crate::runtime::Runtime;
use crate::watch;

/// The first and the maximum retry delay. The API server may refuse requests for a while, because
/// the program's rights are installed along with the rest of the deployment.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The maximum sleep before the expiry time is checked again.
const DAY: Duration = Duration::from_hours(24);

/// The names of the objects that store or trust the certificate.
#[derive(Clone, Copy, Debug)]
pub struct SelfManaged {
    /// The Secret that stores the certificate, in the program's namespace.
    pub secret: &'static str,
    /// The Service through which the API server reaches the webhooks.
    pub service: &'static str,
    /// The MutatingWebhookConfiguration that must trust the certificate.
    pub mutating: &'static str,
    /// The ValidatingWebhookConfiguration that must trust the certificate.
    pub validating: &'static str,
    /// The CustomResourceDefinition whose objects the program converts.
    pub definition: &'static str,
}

/// The certificate to present, or `None` before the first one is created or read.
#[derive(Debug, Default)]
pub struct ServingCert(Mutex<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for ServingCert {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().clone()
    }
}

/// Creates and renews the certificate in the background. The program isn't ready until the certificate is presented.
pub(super) fn spawn_keeper(runtime: &Runtime, names: SelfManaged) -> Arc<ServingCert> {
    let held = Arc::new(ServingCert::default());
    let requirement = runtime.ready.require("webhook certificate");
    let keeper = Keeper {
        client: runtime.client.clone(),
        namespace: runtime.namespace.clone(),
        names,
        held: Arc::clone(&held),
        requirement: Some(requirement),
        looked: false,
        secret: None,
        configurations: Vec::new(),
    };
    let stop = runtime.shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = keeper.keep() => {}
            () = stop.cancelled() => {}
        }
    });
    held
}

/// An update for a watched object.
enum Seen {
    Secret(Box<Option<Secret>>),
    Configuration(Configuration),
}

/// The kind of object that makes the API server call the webhooks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Mutating,
    Validating,
    Definition,
}

/// The current state of an object that makes the API server call the webhooks.
struct Configuration {
    caller: Caller,
    /// The resourceVersion and the webhooks, or `None` if the object doesn't exist.
    seen: Option<(String, Vec<Value>)>,
}

impl Configuration {
    fn new(caller: Caller, seen: Option<(Option<String>, Vec<Value>)>) -> Self {
        let seen = seen.map(|(version, webhooks)| (version.unwrap_or_default(), webhooks));
        Self { caller, seen }
    }
}

fn values<T: Serialize>(webhooks: Option<Vec<T>>) -> Vec<Value> {
    let values = webhooks.into_iter().flatten().map(serde_json::to_value);
    values.filter_map(Result::ok).collect()
}

/// Returns the webhooks with `authorities` (PEM certificates) as their CA bundle, or `None` if all webhooks already have this CA
/// bundle.
fn with_authorities(webhooks: &[Value], authorities: &str) -> Option<Vec<Value>> {
    let wanted = serde_json::to_value(ByteString(authorities.as_bytes().to_vec())).unwrap_or_default();
    if webhooks.iter().all(|webhook| webhook["clientConfig"]["caBundle"] == wanted) {
        return None;
    }
    let mut webhooks = webhooks.to_vec();
    for webhook in &mut webhooks {
        webhook["clientConfig"]["caBundle"] = wanted.clone();
    }
    Some(webhooks)
}

struct Keeper {
    client: Client,
    namespace: String,
    names: SelfManaged,
    held: Arc<ServingCert>,
    requirement: Option<crate::serve::Requirement>,
    /// True once the watch has reported the Secret or its absence.
    looked: bool,
    secret: Option<Secret>,
    configurations: Vec<Configuration>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut seen = self.watch_objects();
        let failures = Failures::new(RETRY_DELAYS.0, RETRY_DELAYS.1);
        let mut wait = DAY;
        loop {
            tokio::select! {
                event = seen.next() => match event {
                    Some(Seen::Secret(secret)) => {
                        self.secret = *secret;
                        self.looked = true;
                    }
                    Some(Seen::Configuration(new)) => {
                        self.configurations.retain(|old| old.caller != new.caller);
                        self.configurations.push(new);
                    }
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            wait = match self.settle().await {
                Ok(wait) => {
                    failures.reset(&());
                    wait
                }
                Err(error) => {
                    tracing::warn!(
                        secret = format!("{}/{}", self.namespace, self.names.secret),
                        %error,
                        "cannot write the webhook certificate; mount one, or grant the rights that config/ contains"
                    );
                    failures.next(())
                }
            };
        }
    }

    /// Takes one step toward a certificate that is presented and trusted. Returns the time to wait before the next step.
    async fn settle(&mut self) -> Result<Duration, Failed> {
        if !self.looked {
            return Ok(DAY);
        }
        let now = OffsetDateTime::now_utc();
        let bundle = self.secret.as_ref().and_then(read_bundle);
        let names = self.dns_names();
        let Some(bundle) = bundle.filter(|bundle| bundle.due() > now && bundle.certified().is_ok()) else {
            // The watch reports the result, whichever replica was first.
            return self.write_secret(self.secret.as_ref(), &names, now).await.map(|()| DAY);
        };
        *self.held.0.lock() = Some(Arc::new(bundle.certified()?));
        if let Some(requirement) = self.requirement.take() {
            requirement.met();
        }
        for configuration in &self.configurations {
            self.trust(configuration, &bundle.authorities).await?;
        }
        let left = bundle.due() - now;
        Ok(Duration::try_from(left).unwrap_or_default().clamp(Duration::from_secs(1), DAY))
    }

    fn dns_names(&self) -> Vec<String> {
        let host = format!("{}.{}.svc", self.names.service, self.namespace);
        vec![host.clone(), format!("{host}.cluster.local")]
    }

    /// Writes a valid certificate to the Secret, unless another replica was faster.
    async fn write_secret(
        &self,
        old: Option<&Secret>,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<(), Failed> {
        let new = match old.and_then(read_bundle) {
            Some(bundle) => bundle.renew(names, now)?,
            None => CertBundle::generate(names, now)?,
        };
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.names.secret.to_owned()),
                resource_version: old.and_then(ResourceExt::resource_version),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned())
                .filter(|_| old.is_none())
                .or(old.and_then(|old| old.type_.clone())),
            data: Some(
                new.data()
                    .into_iter()
                    .map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())))
                    .collect(),
            ),
            ..Secret::default()
        };
        let written = match old {
            None => api.create(&PostParams::default(), &secret).await,
            Some(_) => api.replace(self.names.secret, &PostParams::default(), &secret).await,
        };
        match written {
            Ok(_) => {
                tracing::info!(secret = self.names.secret, "webhook certificate created");
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the `caBundle` of the webhooks in `configuration` to `authorities` (PEM), so that the API server trusts
    /// certificates from these authorities.
    async fn trust(&self, configuration: &Configuration, authorities: &str) -> Result<(), Failed> {
        let Some((version, webhooks)) = &configuration.seen else { return Ok(()) };
        let Some(webhooks) = with_authorities(webhooks, authorities) else { return Ok(()) };
        let client = self.client.clone();
        let patch =
            |key: &str, value: Value| json!({ "metadata": { "resourceVersion": version }, key: value });
        let conversion = json!({ "conversion": { "webhook": webhooks.first() } });
        let webhooks = patch("webhooks", Value::from(webhooks));
        let patched = match configuration.caller {
            Caller::Mutating => {
                patch_object::<MutatingWebhookConfiguration>(client, self.names.mutating, &webhooks).await
            }
            Caller::Validating => {
                patch_object::<ValidatingWebhookConfiguration>(client, self.names.validating, &webhooks).await
            }
            Caller::Definition => {
                let patch = patch("spec", conversion);
                patch_object::<CustomResourceDefinition>(client, self.names.definition, &patch).await
            }
        };
        match patched {
            // The object has changed or is gone. The watch reports that.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => Ok(other?),
        }
    }

    fn watch_objects(&self) -> BoxStream<'static, Seen> {
        let client = || self.client.clone();
        let secrets = watch::one(Api::namespaced(client(), &self.namespace), self.names.secret)
            .map(|secret| Seen::Secret(Box::new(secret)));
        let mutating = watch::one(Api::<MutatingWebhookConfiguration>::all(client()), self.names.mutating);
        let validating =
            watch::one(Api::<ValidatingWebhookConfiguration>::all(client()), self.names.validating);
        let definition = watch::one(Api::<CustomResourceDefinition>::all(client()), self.names.definition);
        let configuration = |caller| {
            move |seen: Option<(Option<String>, Vec<Value>)>| {
                Seen::Configuration(Configuration::new(caller, seen))
            }
        };
        let mutating = mutating
            .map(|seen| seen.map(|seen| (seen.metadata.resource_version, values(seen.webhooks))))
            .map(configuration(Caller::Mutating));
        let validating = validating
            .map(|seen| seen.map(|seen| (seen.metadata.resource_version, values(seen.webhooks))))
            .map(configuration(Caller::Validating));
        let definition = definition
            .map(|seen| {
                let webhook = |seen: CustomResourceDefinition| {
                    let webhook = seen.spec.conversion.and_then(|conversion| conversion.webhook);
                    (seen.metadata.resource_version, values(webhook.map(|webhook| vec![webhook])))
                };
                seen.map(webhook)
            })
            .map(configuration(Caller::Definition));
        let streams = [secrets.boxed(), mutating.boxed(), validating.boxed(), definition.boxed()];
        futures::stream::select_all(streams).boxed()
    }
}

/// The reasons why a step toward a trusted certificate fails.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{}", crate::api_error::message(.0))]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Certificate(#[from] io::Error),
}

fn read_bundle(secret: &Secret) -> Option<CertBundle> {
    let data = secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    CertBundle::read(&data.collect())
}

async fn patch_object<K>(client: Client, name: &str, patch: &Value) -> kube::Result<()>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    Api::<K>::all(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}
