//! The progress of clusters until they run.

pub mod cluster_report;
pub mod progress;
pub(crate) mod view;

use std::time::{Duration, Instant};

use anyhow::Result;
use kube::Client;

use self::cluster_report::ClusterReport;
use self::view::View;
use crate::describe::{self, Blocking, Root, cause, gather, pause, tree};

/// The interval between two reads of the objects.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(700);

/// Follows the clusters of `reports` until all run as their specs say, or `timeout` has passed; what is known is always in the reports.
///
/// A cluster that was refused is not waited for. Reads that fail are repeated until the time is over.
pub async fn follow_clusters(
    client: &Client,
    reports: &mut [ClusterReport],
    timeout: Duration,
) -> Result<()> {
    let started = Instant::now();
    let mut view = View::new();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
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
    let objects = gather::objects(client, report.root, &report.namespace, &report.name).await?.objects;
    report.update(&objects, seconds);
    let tree = tree::tree(report.root, &objects);
    let running = report.is_running();
    let paused = pause::of_objects(&objects)
        .map(|message| Blocking::pause(report.root, &report.namespace, &report.name, message));
    let blocking = paused.or_else(|| cause::blocking(&report.namespace, tree.as_ref()?));
    report.blocking = blocking.filter(|_| !running);
    Ok(tree)
}

/// Reads a cluster before it is changed. Its report then shows only what the change leads to.
///
/// # Errors
/// As [`gather::objects`].
pub async fn report_before_change(
    client: &Client,
    root: Root,
    namespace: &str,
    name: &str,
) -> Result<ClusterReport> {
    let objects = gather::objects(client, root, namespace, name).await?.objects;
    let mut report = ClusterReport::new(namespace, name);
    report.root = root;
    report.skip_reached(&objects);
    Ok(report)
}
