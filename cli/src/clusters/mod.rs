//! Commands for TanzuKubernetesClusters on any management cluster: `apply`, `scale`, `upgrade`, `delete` and `list`.
//!
//! Each makes one change, which the API server accepts or refuses, and then shows the progress. After an interruption, the same
//! command shows the rest of the progress.

mod apply;
mod delete;
mod list;
mod owners;
mod render;
mod scale;
mod upgrade;

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::gcm::TanzuKubernetesCluster;
use futures::FutureExt as _;
use kit::api_error::{is_gone, is_not_served};
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

pub use apply::apply;
pub use delete::delete;
pub use list::list;
pub use render::render;
pub use scale::scale;
pub use upgrade::upgrade;

use crate::apply::refusal_of_user;
use crate::args::{ChangeFlags, CheckedChangeFlags, Output, TargetFlags};
use crate::connection::not_served;
use crate::exit::{ExitStatus, failed};
use crate::follow::cluster_report::ClusterReport;
use crate::follow::{follow_clusters, report_before_change};
use crate::interrupts;
use crate::output::{say, write_err, write_json, write_over};
use crate::target::Target;
use owners::Field;

/// The version of the JSON documents of these commands. It changes if a script that reads one document cannot read the other.
const SCHEMA: u32 = 1;

/// Returns the status of `work`. If the user interrupts it, prints `begun`, which says what continues.
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

/// Reads a cluster.
async fn read(target: &Target, name: &str) -> Result<TanzuKubernetesCluster> {
    let namespace = &target.namespace;
    match clusters(target).get(name).await {
        Err(error) if is_gone(&error) => anyhow::bail!(
            "TanzuKubernetesCluster {namespace}/{name} does not exist: list the clusters with `layercake list -A`"
        ),
        Err(error) if is_not_served(&error) => Err(not_served("does not serve TanzuKubernetesClusters")),
        found => found.with_context(|| format!("cannot read TanzuKubernetesCluster {namespace}/{name}")),
    }
}

fn clusters(target: &Target) -> Api<TanzuKubernetesCluster> {
    Api::namespaced(target.client.clone(), &target.namespace)
}

/// Changes a cluster by a JSON patch. Changes nothing if the cluster was deleted and created again since it was read.
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

/// The change of one cluster.
struct Change<'a> {
    cluster: &'a TanzuKubernetesCluster,
    /// The manager of the fields that are changed.
    manager: &'static str,
    fields: Vec<Field>,
    /// The operations of a JSON patch.
    operations: Vec<Value>,
    /// The line that says what is changed.
    text: String,
}

impl Change<'_> {
    /// Makes the change, and shows the progress. In a dry run, the API server only checks it.
    async fn make(self, target: &Target, flags: &CheckedChangeFlags) -> Result<ExitStatus> {
        let Self { cluster, manager, fields, operations, text } = self;
        let CheckedChangeFlags { dry_run, change: flags, .. } = flags;
        if !flags.force_conflicts {
            owners::check(&fields, cluster.metadata.managed_fields.as_deref())?;
        }
        if *dry_run {
            patch(target, cluster, manager, operations, true).await?;
            say!("{text} (dry run: nothing was changed)");
            print_document(target, flags, Vec::new())?;
            return Ok(ExitStatus::Done);
        }
        let report = report_before_change(&target.client, &target.namespace, &cluster.name_any()).await?;
        patch(target, cluster, manager, operations, false).await?;
        say!("{text}");
        follow(target, vec![report], flags).await
    }
}

/// Shows the progress of changed clusters, and then a summary of each.
async fn follow(target: &Target, mut reports: Vec<ClusterReport>, flags: &ChangeFlags) -> Result<ExitStatus> {
    if flags.wait.wait {
        follow_clusters(&target.client, &mut reports, flags.wait.timeout).await?;
        for report in &reports {
            write_err(&report.text(false, false));
        }
    }
    let runs = reports.iter().all(ClusterReport::is_running);
    print_document(target, flags, reports)?;
    if runs || !flags.wait.wait {
        return Ok(ExitStatus::Done);
    }
    say_not_yet(flags.wait.timeout);
    Ok(ExitStatus::NotYet)
}

fn say_not_yet(timeout: Duration) {
    say!(
        "error: not finished after {timeout:?}. The work continues: run the same command again to follow it"
    );
}

/// Writes the document of `-o json`. A dry run has no clusters.
fn print_document(target: &Target, flags: &ChangeFlags, clusters: Vec<ClusterReport>) -> Result<()> {
    if flags.output == Some(Output::Json) {
        write_json(&Document { schema: SCHEMA, warnings: target.warnings.all(), clusters })?;
    }
    Ok(())
}

/// The document of `-o json`.
#[derive(Serialize)]
struct Document {
    schema: u32,
    warnings: Vec<String>,
    clusters: Vec<ClusterReport>,
}
