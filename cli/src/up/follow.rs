//! Following clusters until they run.

use std::time::{Duration, Instant};

use anyhow::Result;
use kube::Client;
use serde::Serialize;

use super::progress::{self, Count, Milestone};
use super::view::View;
use crate::describe::{self, Blocking, cause, gather, tree};

/// How often the objects are read while clusters come up.
const PACE: Duration = Duration::from_millis(700);
const REFUSED: &str = "Refused";

/// What became of one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Phase, e.g. `running`.
    pub phase: String,
    /// Seconds from the manifest's being applied to Running, or to the time when we stopped waiting.
    pub seconds: f64,
    /// Control plane nodes.
    pub control_plane: Count,
    /// Worker nodes.
    pub workers: Count,
    /// Milestones reached.
    pub milestones: Vec<Milestone>,
    /// The first blocking cause, if it does not run.
    pub blocking: Option<Blocking>,
}

impl ClusterReport {
    /// A cluster that was only just applied.
    pub fn new(namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let nothing = Count::default();
        let phase = String::new();
        Self {
            namespace,
            name,
            phase,
            seconds: 0.0,
            control_plane: nothing,
            workers: nothing,
            milestones: vec![],
            blocking: None,
        }
    }

    /// A cluster that the API server did not take.
    pub fn refused(namespace: &str, name: &str, error: &anyhow::Error) -> Self {
        let object = format!("TanzuKubernetesCluster {namespace}/{name}");
        let blocking =
            Blocking { object, reason: REFUSED.to_owned(), message: error.root_cause().to_string() };
        Self { phase: REFUSED.to_lowercase(), blocking: Some(blocking), ..Self::new(namespace, name) }
    }

    /// Whether there is anything to wait for.
    fn is_awaited(&self) -> bool {
        !self.is_running() && !self.is_refused()
    }

    /// Whether the API server did not take it.
    pub fn is_refused(&self) -> bool {
        self.phase == REFUSED.to_lowercase()
    }

    /// Whether the cluster runs.
    pub fn is_running(&self) -> bool {
        self.phase == "running"
    }
}

/// Follows the clusters of `reports` until all run or `timeout` has passed; what is known is always in the reports.
///
/// A cluster that was refused is not waited for. Reads that fail are repeated until the time is over.
pub async fn followed(client: &Client, reports: &mut [ClusterReport], timeout: Duration) -> Result<()> {
    let started = Instant::now();
    let mut view = View::new();
    let mut ticks = tokio::time::interval(PACE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut trees = Vec::new();
        let mut failed = None;
        for report in reports.iter_mut().filter(|report| report.is_awaited()) {
            let seconds = started.elapsed().as_secs_f64();
            match observed(client, report, seconds).await {
                Ok(tree) => trees.extend(tree.map(|tree| (report.namespace.clone(), tree))),
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() {
            view.show(reports, &trees, started.elapsed());
        }
        if !reports.iter().any(ClusterReport::is_awaited) {
            return Ok(());
        }
        if started.elapsed() > timeout {
            return failed.map_or(Ok(()), Err);
        }
    }
}

/// Brings a report up to what the objects say now; returns the cluster's tree.
async fn observed(
    client: &Client,
    report: &mut ClusterReport,
    seconds: f64,
) -> Result<Option<describe::TreeNode>> {
    let objects = gather::objects(client, &report.namespace, &report.name).await?;
    progress::reached(&mut report.milestones, &objects, seconds);
    report.phase = progress::phase(&objects);
    report.seconds = (seconds * 10.0).round() / 10.0;
    report.control_plane = progress::control_plane(&objects);
    report.workers = progress::workers(&objects);
    let tree = tree::tree(&objects);
    let running = report.is_running();
    report.blocking =
        tree.as_ref().filter(|_| !running).and_then(|tree| cause::blocking(&report.namespace, tree));
    Ok(tree)
}
