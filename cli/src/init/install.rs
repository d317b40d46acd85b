//! Writes an installation to a cluster and shows the progress.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api::names::VMOP_NAMESPACE;
use components::catalogue::Component;
use components::plan::{ComponentObjects, InstallationObjects};
use components::render::VERSION_LABEL;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kit::objects::Objects;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::availability::{cause, is_available, pod_selector};
use super::progress::InstallationProgress;
use super::site_file::SiteFile;
use crate::terminal::exit::{ExitStatus, with_causes};
use crate::terminal::output::say;

/// The interval between reads of a Deployment.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The time after which the reason for an unavailable component is shown.
const PATIENCE: Duration = Duration::from_secs(20);
/// The timeout for webhooks of available components to respond. The API server can only call them after cert-manager
/// has passed on their CA certificates.
const WEBHOOKS_WITHIN: Duration = Duration::from_mins(1);

/// Writes an installation and a site to one cluster.
pub struct InstallationWriter<'a> {
    client: &'a Client,
    timeout: Duration,
    progress: InstallationProgress,
}

impl<'a> InstallationWriter<'a> {
    /// Creates a writer. `timeout` applies to all CRDs together, and to each component.
    pub fn new(client: &'a Client, timeout: Duration) -> Self {
        Self { client, timeout, progress: InstallationProgress::begin() }
    }

    /// Creates a writer that doesn't print progress.
    pub fn quiet(client: &'a Client, timeout: Duration) -> Self {
        Self { client, timeout, progress: InstallationProgress::quiet() }
    }

    /// Applies everything in order, and waits until all components are available.
    ///
    /// All Pods start at the same time, so that their images are pulled in parallel. Webhook configurations follow once
    /// their program is available.
    pub async fn install(&self, installation: &InstallationObjects) -> Result<()> {
        let objects = Objects::new(self.client);
        let (namespaces, definitions): (Vec<_>, Vec<_>) =
            installation.base.iter().cloned().partition(|one| one["kind"] == "Namespace");
        objects.apply_all(&namespaces).await?;
        objects.apply_all(&definitions).await?;
        let served = objects.wait_until_served(&definitions, self.timeout).await;
        served.map_err(|error| ExitStatus::NotYet.error(format!("{error}. Run the same command again")))?;
        self.progress.report("definitions", &format!("{} are served", definitions.len()));
        for part in &installation.parts {
            objects.apply_all(&part.objects).await?;
            for object in &part.defaults {
                objects.create_if_missing(object).await?;
            }
            objects.apply(&part.deployment).await?;
        }
        let finish = async |part: &ComponentObjects| {
            self.wait_until_available(part.component).await?;
            objects.apply_all(&part.after).await?;
            let version = part.deployment["metadata"]["labels"][VERSION_LABEL].as_str().unwrap_or_default();
            self.progress.report(part.component.name, &format!("{version} is available"));
            Ok(())
        };
        // Waits for all components even after a failure, so that each cause is shown.
        let finished: Vec<Result<()>> = join_all(installation.parts.iter().map(finish)).await;
        finished.into_iter().collect()
    }

    async fn wait_until_available(&self, component: &Component) -> Result<()> {
        let began = Instant::now();
        let (mut last, mut shown) = (String::new(), String::new());
        let available = plane::wait::poll(self.timeout, POLL_INTERVAL, async || {
            last = match self.cause(component).await {
                Ok(None) => return Ok(Some(())),
                Ok(Some(cause)) => cause,
                // The API server may be briefly unavailable, because it may run on the node that starts the Pods.
                Err(error) => format!("cannot read its Deployment and Pods: {error}"),
            };
            if began.elapsed() >= PATIENCE && last != shown {
                say!("{:<22} waits: {last}", component.name);
                shown.clone_from(&last);
            }
            Ok::<_, anyhow::Error>(None)
        });
        match available.await? {
            Some(()) => Ok(()),
            None => Err(ExitStatus::NotYet.error(format!(
                "{} is not available after {} s: {last}. Remove the cause, and run the same command again",
                component.name,
                self.timeout.as_secs()
            ))),
        }
    }

    /// Returns the reason why a component isn't available, or `None` if the component is available.
    async fn cause(&self, component: &Component) -> kube::Result<Option<String>> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), component.namespace);
        let deployment = deployments.get(component.deployment).await?;
        if is_available(&deployment) {
            return Ok(None);
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), component.namespace);
        let pods = pods.list(&ListParams::default().labels(&pod_selector(&deployment))).await?;
        Ok(Some(cause(&deployment, &pods.items)))
    }

    /// Applies a site file, and the credentials Secret if credentials are given.
    pub async fn apply_site(
        &self,
        site: &SiteFile,
        credentials: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<()> {
        self.apply_configuration(site, credentials).await?;
        let objects = Objects::new(self.client).retry_for(WEBHOOKS_WITHIN);
        for object in &site.objects {
            objects.apply(object).await.map_err(explain)?;
        }
        self.progress.report("site", &format!("{} objects are applied", site.objects.len()));
        Ok(())
    }

    /// Applies the part of a site file that the VM operator needs to connect to vCenter, and the credentials Secret if
    /// credentials are given.
    pub async fn apply_configuration(
        &self,
        site: &SiteFile,
        credentials: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Result<()> {
        let objects = Objects::new(self.client);
        if let Some(credentials) = credentials {
            let text = |(key, value): (&String, &Vec<u8>)| {
                (key.clone(), Value::from(String::from_utf8_lossy(value).into_owned()))
            };
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": { "name": site.secret(), "namespace": VMOP_NAMESPACE },
                "stringData": credentials.iter().map(text).collect::<serde_json::Map<_, _>>(),
            });
            objects.apply(&secret).await?;
        }
        for object in site.provider_configuration() {
            objects.apply(object).await?;
        }
        Ok(())
    }
}

/// Adds a remedy to errors from webhooks that the API server can't call.
fn explain(error: kit::objects::Error) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let text = with_causes(&error);
    if !text.contains("failed calling webhook") {
        return error;
    }
    ExitStatus::NotYet.error(format!(
        "{text}. The API server does not reach this webhook, or does not trust its certificate. Run the same command again. If nothing changes and the cluster has cert-manager, check that its cainjector runs"
    ))
}
