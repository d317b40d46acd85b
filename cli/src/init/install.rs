//! Carries an installation out, and shows how far it is.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use components::catalogue::Component;
use components::certificate::{self, RENEWED_BEFORE, ServingPair};
use components::plan::{Installation, Part, WantedCertificate};
use components::render::MANAGED_BY;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::decision::Decision;
use super::facts::OPERATOR_NAMESPACE;
use super::site_file::SiteFile;
use crate::exit::ExitStatus;
use crate::output::say;

/// Between two looks at a Deployment.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// A Pod that needs longer to start gets a line that says why.
const PATIENCE: Duration = Duration::from_secs(20);

type Decisions = [(&'static Component, Decision)];

/// Writes to one cluster.
pub struct Installer<'a> {
    client: &'a Client,
    timeout: Duration,
}

impl<'a> Installer<'a> {
    /// Waits at most `timeout` for each component.
    pub fn new(client: &'a Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// The certificates that the cluster has for components that are installed, or new ones.
    pub async fn certificates(
        &self,
        wanted: &'a [WantedCertificate],
        decisions: &Decisions,
    ) -> Result<BTreeMap<&'a str, ServingPair>> {
        let now = OffsetDateTime::now_utc();
        let mut pairs = BTreeMap::new();
        for one in wanted {
            if is_left(decisions, one.component) {
                continue;
            }
            let kept = self.kept_certificate(one, now).await?;
            let pair = kept.map_or_else(|| certificate::generate(&one.dns_names, now), Ok)?;
            pairs.insert(one.component, pair);
        }
        Ok(pairs)
    }

    /// The certificate of an earlier installation, if it is valid for long enough.
    async fn kept_certificate(
        &self,
        wanted: &WantedCertificate,
        now: OffsetDateTime,
    ) -> Result<Option<ServingPair>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), wanted.namespace);
        let secret = secrets.get_opt(&wanted.secret).await;
        let secret =
            secret.with_context(|| format!("cannot read Secret {}/{}", wanted.namespace, wanted.secret))?;
        Ok(secret.and_then(|secret| read_pair(&secret, now)))
    }

    /// Applies everything in order, and waits until all components are available.
    ///
    /// Pods of all components start side by side: their images are pulled meanwhile. What has the API server call a program is
    /// applied when it is available.
    pub async fn install(&self, installation: &Installation, decisions: &Decisions) -> Result<()> {
        let began = Instant::now();
        let is_wanted = |document: &&Value| !belongs_to_left(document, decisions);
        let (namespaces, definitions): (Vec<_>, Vec<_>) =
            installation.base.iter().filter(is_wanted).cloned().partition(|one| one["kind"] == "Namespace");
        self.apply_all(&namespaces).await?;
        self.apply_all(&definitions).await?;
        plane::served(self.client, &definitions).await?;
        report("definitions", &format!("{} are served", definitions.len()), began);

        let mut parts = Vec::with_capacity(installation.parts.len());
        for part in &installation.parts {
            match decisions.iter().find(|(component, _)| component.name == part.component.name) {
                Some((_, Decision::Leave(what))) => {
                    say!("{:<22} stays as it is: {what}", part.component.name);
                }
                _ => parts.push(part),
            }
        }
        for part in &parts {
            self.apply_all(&part.objects).await?;
            for object in &part.defaults {
                self.create_if_missing(object).await?;
            }
            plane::apply(self.client, &part.deployment).await?;
        }
        let finish = async |part: &Part| {
            self.wait_until_available(part.component).await?;
            self.apply_all(&part.after).await?;
            report(part.component.name, &format!("{} is available", part.component.version()), began);
            Ok(())
        };
        // All are waited for, so that each cause is shown.
        let finished: Vec<Result<()>> = join_all(parts.into_iter().map(finish)).await;
        finished.into_iter().collect()
    }

    async fn apply_all(&self, objects: &[Value]) -> Result<()> {
        Ok(plane::apply_all(self.client, objects).await?)
    }

    /// Creates an object that an administrator may have changed, if it does not exist.
    async fn create_if_missing(&self, object: &Value) -> Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let resource = crate::apply::resource_of(object);
        let api: Api<kube::api::DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let new = serde_json::from_value(object.clone()).context("a default object")?;
        match api.create(&PostParams::default(), &new).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop).with_context(|| format!("cannot create {} {name}", resource.kind)),
        }
    }

    async fn wait_until_available(&self, component: &Component) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), component.namespace);
        let began = Instant::now();
        let mut shown = String::new();
        loop {
            let deployment = deployments.get(component.deployment).await;
            let deployment =
                deployment.with_context(|| format!("cannot read the Deployment of {}", component.name))?;
            if is_available(&deployment) {
                return Ok(());
            }
            let late = began.elapsed() >= self.timeout;
            if late || began.elapsed() >= PATIENCE {
                let cause = self.cause(component, &deployment).await?;
                if late {
                    return Err(ExitStatus::NotYet.error(format!(
                        "{} is not available after {} s: {cause}. Run the same command again when the cause is removed",
                        component.name,
                        self.timeout.as_secs()
                    )));
                }
                if cause != shown {
                    say!("{:<22} waits: {cause}", component.name);
                    shown = cause;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Why a Deployment is not available, as its Pods show.
    async fn cause(&self, component: &Component, deployment: &Deployment) -> Result<String> {
        let selector = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
        let selector = selector.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let selector = selector.collect::<Vec<_>>().join(",");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), component.namespace);
        let pods = pods.list(&ListParams::default().labels(&selector)).await;
        let pods = pods.with_context(|| format!("cannot list the Pods of {}", component.name))?.items;
        if pods.is_empty() {
            let condition = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let failure =
                condition.filter(|one| one.type_ == "ReplicaFailure").find_map(|one| one.message.clone());
            return Ok(failure.unwrap_or_else(|| "there are no Pods yet".to_owned()));
        }
        let cause = pods.iter().find_map(pod_cause);
        Ok(cause.unwrap_or_else(|| "its Pods are not ready yet".to_owned()))
    }

    /// Applies a site file, and the Secret with the credentials if they were given.
    pub async fn apply_site(
        &self,
        site: &SiteFile,
        credentials: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<()> {
        let began = Instant::now();
        if let Some(credentials) = credentials {
            let text = |key: &str| {
                let value = credentials.get(key).map(Vec::as_slice).unwrap_or_default();
                String::from_utf8_lossy(value).into_owned()
            };
            let metadata = json!({ "name": site.secret(), "namespace": OPERATOR_NAMESPACE });
            let data = json!({ "username": text("username"), "password": text("password") });
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "stringData": data,
            });
            plane::apply(self.client, &secret).await?;
        }
        for object in &site.objects {
            plane::apply(self.client, object).await?;
        }
        report("site", &format!("{} objects are applied", site.objects.len()), began);
        Ok(())
    }
}

/// Says that something is done, and when.
fn report(what: &str, text: &str, began: Instant) {
    say!("{what:<22} {text:<36} {:>7.1} s", began.elapsed().as_secs_f32());
}

fn is_left(decisions: &Decisions, component: &str) -> bool {
    decisions.iter().any(|(one, decision)| one.name == component && matches!(decision, Decision::Leave(_)))
}

/// Returns true for namespaces and definitions of components that another tool manages.
fn belongs_to_left(document: &Value, decisions: &Decisions) -> bool {
    let label = document["metadata"]["labels"]["cluster.x-k8s.io/provider"].as_str();
    let left = |(component, decision): &(&'static Component, Decision)| {
        let provider = component.provider().map(|provider| provider.label);
        matches!(decision, Decision::Leave(_)) && provider.is_some() && provider == label
    };
    label.is_some() && decisions.iter().any(left)
}

/// Reads a certificate that an installation wrote, if it is valid for another year.
fn read_pair(secret: &Secret, now: OffsetDateTime) -> Option<ServingPair> {
    if secret.labels().get(MANAGED_BY.0).is_none_or(|by| by != MANAGED_BY.1) {
        return None;
    }
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    let pair =
        ServingPair { authority: text("ca.crt")?, certificate: text("tls.crt")?, key: text("tls.key")? };
    certificate::ends(&pair.certificate).is_some_and(|end| end - now > RENEWED_BEFORE).then_some(pair)
}

/// Returns true if all replicas of the newest generation are available.
fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) >= wanted
            && status.available_replicas.unwrap_or(0) >= wanted
    })
}

/// Why a Pod is not ready: it is not scheduled, or a container waits or was terminated.
fn pod_cause(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    let unscheduled =
        status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(message) = unscheduled.and_then(|condition| condition.message.as_deref()) {
        return Some(format!("Pod {name} is not scheduled: {message}"));
    }
    let state = status.container_statuses.iter().flatten().find(|container| !container.ready)?;
    let waiting = state.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if reason == "ContainerCreating" {
        return None;
    }
    let message = waiting.message.as_deref().unwrap_or_default();
    let ended = state.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let ended =
        ended.map(|ended| format!(", its program ended with status {}", ended.exit_code)).unwrap_or_default();
    Some(format!("Pod {name}, image {}: {reason} {message}{ended}", state.image).trim_end().to_owned())
}

/// The objects whose VMs would be orphaned, by kind.
pub async fn remaining(client: &Client) -> Result<BTreeMap<&'static str, usize>> {
    const KINDS: [(&str, &str, &str, &str); 3] = [
        ("run.tanzu.vmware.com", "v1alpha3", "TanzuKubernetesCluster", "tanzukubernetesclusters"),
        ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
        ("vmoperator.vmware.com", "v1alpha1", "VirtualMachine", "virtualmachines"),
    ];
    let mut left = BTreeMap::new();
    for (group, version, kind, plural) in KINDS {
        let gvk = kube::api::GroupVersionKind::gvk(group, version, kind);
        let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<kube::api::DynamicObject> = Api::all_with(client.clone(), &resource);
        match api.list_metadata(&ListParams::default()).await {
            Ok(found) if found.items.is_empty() => {}
            Ok(found) => drop(left.insert(kind, found.items.len())),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).with_context(|| format!("cannot list {plural}")),
        }
    }
    Ok(left)
}
