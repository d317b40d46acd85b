//! Commands for clusters on any management cluster: `apply`, `scale`, `upgrade`, `delete`, `list` and `render`. All
//! except `upgrade` and `render` also support Cluster API Clusters without a TanzuKubernetesCluster.
//!
//! A command that changes clusters makes one change, which the API server accepts or refuses, and then shows the
//! progress. After an interruption, the same command shows the remaining progress.

mod apply;
mod delete;
mod list;
pub mod new_cluster;
mod owners;
mod plain;
mod render;
mod scale;
mod spelling;
mod upgrade;

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::gcm::TanzuKubernetesCluster;
use futures::FutureExt as _;
use kit::api_error::{is_gone, is_not_served};
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

pub use apply::{apply, apply_manifest};
pub use delete::delete;
pub use list::list;
pub use render::render;
pub use scale::scale;
pub use upgrade::upgrade;

use crate::args::{ChangeFlags, CheckedChangeFlags, Output, TargetFlags};
use crate::describe::{Blocking, Root};
use crate::follow::cluster_report::ClusterReport;
use crate::follow::{follow_clusters, report_before_change};
use crate::kube::apply::refusal_of_user;
use crate::kube::connection::{CLUSTER, dynamic_api_in, not_served};
use crate::kube::manifest::is_cluster;
use crate::local::target::Target;
use crate::terminal::exit::{ExitStatus, failed, refuse};
use crate::terminal::interrupts;
use crate::terminal::output::{say, write_err, write_json, write_over};
use owners::Field;

/// The version of the JSON documents. It changes if scripts for the earlier version can't read the new documents.
const SCHEMA: u32 = 1;

/// Runs `work` and returns its status. If the user interrupts the command, prints `begun`, a sentence about the work
/// that continues.
async fn until_interrupted(
    target: &TargetFlags,
    begun: &str,
    work: impl Future<Output = Result<ExitStatus>>,
) -> ExitStatus {
    let explain = || {
        write_over(begun);
        if let Some(name) = &target.bootstrap {
            say!("Bootstrap cluster {name} runs on. To stop it: layercake bootstrap stop {name}");
        }
    };
    let status = work.map(|status| status.unwrap_or_else(|error| failed(&error)));
    interrupts::until_interrupted(status, explain).await
}

/// Reads a TanzuKubernetesCluster. Refuses a Cluster without a TanzuKubernetesCluster.
async fn read(target: &Target, name: &str) -> Result<TanzuKubernetesCluster> {
    match find(target, name).await? {
        Found::TanzuKubernetesCluster(cluster) => Ok(*cluster),
        Found::Plain(_) => Err(ExitStatus::Refused.error(format!(
            "{}/{name} is a Cluster without a TanzuKubernetesCluster. Change spec.topology.version with `kubectl edit cluster {name} -n {}`",
            target.namespace, target.namespace
        ))),
    }
}

/// Refuses to change a cluster that is being deleted, because the change would be lost.
fn refuse_if_deleting(root: Root, metadata: &ObjectMeta) -> Result<()> {
    if metadata.deletion_timestamp.is_none() {
        return Ok(());
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&metadata.namespace), text(&metadata.name));
    Err(refuse(&format!(
        "{} {namespace}/{name} is being deleted, and a change would be lost with it. Wait until it is gone with `layercake delete {name} -n {namespace}`, then run this command again",
        root.kind()
    )))
}

fn clusters(target: &Target) -> Api<TanzuKubernetesCluster> {
    clusters_in(target, &target.namespace)
}

/// Returns the API for Clusters in the namespace.
fn plain_clusters(target: &Target) -> Api<DynamicObject> {
    dynamic_api_in(&target.client, CLUSTER, Some(&target.namespace))
}

fn clusters_in(target: &Target, namespace: &str) -> Api<TanzuKubernetesCluster> {
    Api::namespaced(target.client.clone(), namespace)
}

/// A cluster of one of the two kinds.
enum Found {
    TanzuKubernetesCluster(Box<TanzuKubernetesCluster>),
    /// A Cluster API Cluster without a TanzuKubernetesCluster.
    Plain(Box<DynamicObject>),
}

/// Reads a TanzuKubernetesCluster, or the Cluster with this name if there isn't one.
async fn find(target: &Target, name: &str) -> Result<Found> {
    let missing = match clusters(target).get(name).await {
        Err(error) if is_gone(&error) || is_not_served(&error) => error,
        found => {
            let found = found
                .with_context(|| format!("cannot read TanzuKubernetesCluster {}/{name}", target.namespace))?;
            return Ok(Found::TanzuKubernetesCluster(Box::new(found)));
        }
    };
    match plain_clusters(target).get(name).await {
        Ok(cluster) => Ok(Found::Plain(Box::new(cluster))),
        Err(error) if is_absent_kind(&error) && is_absent_kind(&missing) => {
            Err(not_served("serves neither TanzuKubernetesClusters nor Clusters"))
        }
        Err(error) if is_gone(&error) || is_not_served(&error) => Err(missing_cluster(target, name)),
        Err(error) => Err(error).with_context(|| format!("cannot read Cluster {}/{name}", target.namespace)),
    }
}

/// Returns true if the API server doesn't serve the kind. The status code for a missing object is the same.
fn is_absent_kind(error: &kube::Error) -> bool {
    is_not_served(error) && !is_gone(error)
}

fn missing_cluster(target: &Target, name: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "cluster {}/{name} does not exist: list the clusters with `layercake list -A`",
        target.namespace
    )
}

/// Returns the kind of a cluster in a manifest, or `None` for other documents.
fn root_of(document: &Value) -> Option<Root> {
    let is_plain = document["kind"] == "Cluster"
        && document["apiVersion"].as_str().is_some_and(|version| version.starts_with("cluster.x-k8s.io/"));
    if is_cluster(document) { Some(Root::TanzuKubernetesCluster) } else { is_plain.then_some(Root::Cluster) }
}

/// Applies a JSON patch to a cluster. The patch fails if the cluster has been deleted and created again since it was
/// read.
async fn patch(
    target: &Target,
    cluster: &TanzuKubernetesCluster,
    manager: &str,
    operations: Vec<Value>,
    dry_run: bool,
) -> Result<()> {
    let name = cluster.name_any();
    let test = serde_json::json!({"op": "test", "path": "/metadata/uid", "value": cluster.uid()});
    let operations: Vec<_> = std::iter::once(test).chain(operations).collect();
    let patch = serde_json::from_value(Value::from(operations)).context("cannot write the change")?;
    let params = kube::api::PatchParams { dry_run, ..kube::api::PatchParams::apply(manager) };
    let patch = kube::api::Patch::<()>::Json(patch);
    let changed = clusters(target).patch(&name, &params, &patch).await;
    changed
        .map_err(refusal_of_user)
        .map(drop)
        .with_context(|| format!("cannot change TanzuKubernetesCluster {}/{name}", target.namespace))
}

/// A change to one cluster.
struct Change<'a> {
    cluster: &'a TanzuKubernetesCluster,
    /// The field manager for the change.
    manager: &'static str,
    fields: Vec<Field>,
    /// JSON patch operations.
    operations: Vec<Value>,
    /// The line that describes the change to the user.
    text: String,
}

impl Change<'_> {
    /// Applies the change and shows the progress. In a dry run, the API server only checks the change. Refuses if the
    /// cluster is being deleted, or if another tool has set a field and conflicts aren't forced.
    async fn make(self, target: &Target, flags: &CheckedChangeFlags) -> Result<ExitStatus> {
        let Self { cluster, manager, fields, operations, text } = self;
        let CheckedChangeFlags { dry_run, change: flags, .. } = flags;
        refuse_if_deleting(Root::TanzuKubernetesCluster, &cluster.metadata)?;
        if !flags.force_conflicts {
            owners::check(&fields, cluster.metadata.managed_fields.as_deref())?;
        }
        if *dry_run {
            patch(target, cluster, manager, operations, true).await?;
            say!("{text} (dry run: nothing was changed)");
            print_document(target, flags, Vec::new())?;
            return Ok(ExitStatus::Done);
        }
        let root = Root::TanzuKubernetesCluster;
        let report =
            report_before_change(&target.client, root, &target.namespace, &cluster.name_any()).await?;
        patch(target, cluster, manager, operations, false).await?;
        say!("{text}");
        follow(target, vec![report], flags).await
    }
}

/// Shows the progress of changed clusters, and then a summary for each.
async fn follow(target: &Target, mut reports: Vec<ClusterReport>, flags: &ChangeFlags) -> Result<ExitStatus> {
    if flags.wait.wait {
        follow_clusters(&target.client, &mut reports, flags.wait.timeout).await?;
        for report in &reports {
            write_err(&report.text(false, false));
        }
    }
    let runs = reports.iter().all(ClusterReport::is_running);
    let paused = reports.iter().any(|report| report.blocking.as_ref().is_some_and(Blocking::is_pause));
    print_document(target, flags, reports)?;
    if runs || !flags.wait.wait {
        return Ok(ExitStatus::Done);
    }
    say_not_yet(flags.wait.timeout, paused);
    Ok(ExitStatus::NotYet)
}

fn say_not_yet(timeout: Duration, paused: bool) {
    let continues = if paused {
        "The work continues when the cluster is resumed"
    } else {
        "The work continues: run the same command again to follow it"
    };
    say!("error: not finished after {timeout:?}. {continues}");
}

/// Writes the document for `-o json`. In a dry run, `clusters` is empty.
fn print_document(target: &Target, flags: &ChangeFlags, clusters: Vec<ClusterReport>) -> Result<()> {
    if flags.output == Some(Output::Json) {
        write_json(&Document { schema: SCHEMA, warnings: target.warnings.all(), clusters })?;
    }
    Ok(())
}

/// The document for `-o json`.
#[derive(Serialize)]
struct Document {
    schema: u32,
    warnings: Vec<String>,
    clusters: Vec<ClusterReport>,
}
