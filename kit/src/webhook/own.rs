//! A certificate of the program's own, where nobody mounts one: kept in a Secret that all replicas share, renewed
//! before it ends, presented without a restart, and trusted by the program's webhook configurations.
//!
//! Replicas agree through the Secret alone: whoever writes first wins, everybody presents what was written.

use super::issue::Material;
use crate::{retry::Failures, run::Runtime};
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::{
    ByteString, ClusterResourceScope,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt::Debug, io, sync::Arc, time::Duration};
use time::OffsetDateTime;

/// The API server may refuse for a while: its rights come with the rest of the deployment.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The longest sleep until the next look at the clock.
const DAY: Duration = Duration::from_hours(24);

/// The names under which a program's own certificate is kept and trusted.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The Secret in the program's namespace.
    pub secret: &'static str,
    /// The Service by which the API server reaches the webhooks.
    pub service: &'static str,
    /// The MutatingWebhookConfiguration.
    pub mutating: &'static str,
    /// The ValidatingWebhookConfiguration.
    pub validating: &'static str,
}

/// The certificate to present, once there is one.
#[derive(Debug, Default)]
pub struct Held(Mutex<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Held {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().clone()
    }
}

/// Makes and keeps the certificate in the background; ready counts from its first presentation.
pub(super) fn keep(runtime: &Runtime, own: Own) -> Arc<Held> {
    let held = Arc::new(Held::default());
    let requirement = runtime.ready.require("webhook certificate");
    let keeper = Keeper {
        client: runtime.client.clone(),
        namespace: runtime.namespace.clone(),
        own,
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

/// What was seen of one of the objects that matter.
enum Seen {
    Secret(Box<Option<Secret>>),
    Configuration(Configuration),
}

/// A webhook configuration as it is, or that there is none.
struct Configuration {
    mutating: bool,
    /// The version it was read at, and its webhooks.
    seen: Option<(String, Vec<Value>)>,
}

impl Configuration {
    fn new(mutating: bool, seen: Option<(Option<String>, Vec<Value>)>) -> Self {
        let seen = seen.map(|(version, webhooks)| (version.unwrap_or_default(), webhooks));
        Self { mutating, seen }
    }
}

fn values<T: Serialize>(webhooks: Option<Vec<T>>) -> Vec<Value> {
    let values = webhooks.into_iter().flatten().map(serde_json::to_value);
    values.filter_map(Result::ok).collect()
}

/// The webhooks with these authorities; none where all trust them already.
fn trusting(webhooks: &[Value], authorities: &str) -> Option<Vec<Value>> {
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
    own: Own,
    held: Arc<Held>,
    requirement: Option<crate::serve::Requirement>,
    /// The Secret was looked for.
    looked: bool,
    secret: Option<Secret>,
    configurations: Vec<Configuration>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut seen = self.watches();
        let failures = Failures::new(PATIENCE.0, PATIENCE.1);
        let mut wait = DAY;
        loop {
            tokio::select! {
                event = seen.next() => match event {
                    Some(Seen::Secret(secret)) => {
                        self.secret = *secret;
                        self.looked = true;
                    }
                    Some(Seen::Configuration(new)) => {
                        self.configurations.retain(|old| old.mutating != new.mutating);
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
                        secret = format!("{}/{}", self.namespace, self.own.secret),
                        %error,
                        "can't keep the webhook certificate: mount one, or grant the rights of config/"
                    );
                    failures.next(())
                }
            };
        }
    }

    /// One step nearer to a certificate that is presented and trusted; how long nothing is to be done then.
    async fn settle(&mut self) -> Result<Duration, Failed> {
        if !self.looked {
            return Ok(DAY);
        }
        let now = OffsetDateTime::now_utc();
        let material = self.secret.as_ref().and_then(material);
        let names = self.names();
        let Some(material) = material.filter(|material| material.due() > now && material.certified().is_ok())
        else {
            // The watch shows what came of it, whoever was first.
            return self.written(self.secret.as_ref(), &names, now).await.map(|()| DAY);
        };
        *self.held.0.lock() = Some(Arc::new(material.certified()?));
        if let Some(requirement) = self.requirement.take() {
            requirement.met();
        }
        for configuration in &self.configurations {
            self.trusted(configuration, &material.authorities).await?;
        }
        let left = material.due() - now;
        Ok(Duration::try_from(left).unwrap_or_default().clamp(Duration::from_secs(1), DAY))
    }

    fn names(&self) -> Vec<String> {
        let host = format!("{}.{}.svc", self.own.service, self.namespace);
        vec![host.clone(), format!("{host}.cluster.local")]
    }

    /// The Secret holds a certificate that is in order, unless another replica was faster.
    async fn written(
        &self,
        old: Option<&Secret>,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<(), Failed> {
        let new = match old.and_then(material) {
            Some(material) => material.renewed(names, now)?,
            None => Material::made(names, now)?,
        };
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.own.secret.to_owned()),
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
            Some(_) => api.replace(self.own.secret, &PostParams::default(), &secret).await,
        };
        match written {
            Ok(_) => {
                tracing::info!(secret = self.own.secret, "webhook certificate made");
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// All webhooks of a configuration trust these authorities.
    async fn trusted(&self, configuration: &Configuration, authorities: &str) -> Result<(), Failed> {
        let Some((version, webhooks)) = &configuration.seen else { return Ok(()) };
        let Some(webhooks) = trusting(webhooks, authorities) else { return Ok(()) };
        let patch = json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks });
        let client = self.client.clone();
        let patched = if configuration.mutating {
            patched::<MutatingWebhookConfiguration>(client, self.own.mutating, &patch).await
        } else {
            patched::<ValidatingWebhookConfiguration>(client, self.own.validating, &patch).await
        };
        match patched {
            // It changed meanwhile: the watch shows it.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => Ok(other?),
        }
    }

    fn watches(&self) -> BoxStream<'static, Seen> {
        let client = || self.client.clone();
        let secrets = followed(Api::namespaced(client(), &self.namespace), self.own.secret)
            .map(|secret| Seen::Secret(Box::new(secret)));
        let mutating = followed(Api::<MutatingWebhookConfiguration>::all(client()), self.own.mutating);
        let validating = followed(Api::<ValidatingWebhookConfiguration>::all(client()), self.own.validating);
        let mutating = mutating.map(|seen| {
            let seen = seen.map(|seen| (seen.metadata.resource_version, values(seen.webhooks)));
            Seen::Configuration(Configuration::new(true, seen))
        });
        let validating = validating.map(|seen| {
            let seen = seen.map(|seen| (seen.metadata.resource_version, values(seen.webhooks)));
            Seen::Configuration(Configuration::new(false, seen))
        });
        futures::stream::select_all([secrets.boxed(), mutating.boxed(), validating.boxed()]).boxed()
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Certificate(#[from] io::Error),
}

fn material(secret: &Secret) -> Option<Material> {
    let data = secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    Material::read(&data.collect())
}

async fn patched<K>(client: Client, name: &str, patch: &Value) -> kube::Result<()>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    Api::<K>::all(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// One object as it comes, changes and goes.
fn followed<K>(api: Api<K>, name: &'static str) -> BoxStream<'static, Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher::watch_object(api, name)
        .default_backoff()
        .filter_map(move |seen| async move {
            seen.inspect_err(|error| tracing::debug!(name, %error, "watch interrupted; trying again")).ok()
        })
        .boxed()
}
