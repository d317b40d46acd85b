//! Follows the progress of clusters until they run.

pub mod cluster_report;
pub(crate) mod lost;
pub mod progress;
pub(crate) mod view;

use std::time::{Duration, Instant};

use anyhow::Result;
use kube::Client;

use self::cluster_report::ClusterReport;
use self::lost::Silence;
use self::view::View;
use crate::describe::tree::{Objects, Tree};
use crate::describe::{Blocking, Root, gather, pause, tree};

/// The interval between two reads of the objects.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(700);

/// Follows the clusters in `reports` until all run as their specs say, or until `timeout`. The reports are updated with
/// each read.
///
/// Refused clusters are skipped. Failed reads are retried for three minutes.
///
/// # Errors
/// Returns an error if a cluster is deleted while it is followed, or if the API server doesn't respond for three
/// minutes.
pub async fn follow_clusters(
    client: &Client,
    reports: &mut [ClusterReport],
    timeout: Duration,
) -> Result<()> {
    let started = Instant::now();
    let mut view = View::new();
    let mut silence = Silence::default();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut trees = Vec::new();
        let mut failed = false;
        for report in reports.iter_mut().filter(|report| report.is_awaited()) {
            let seconds = started.elapsed().as_secs_f64();
            let read = gather::objects(client, report.root, &report.namespace, &report.name);
            let Some(gathered) = silence.note(read.await, Instant::now())? else {
                failed = true;
                break;
            };
            lost::check_exists(report.root, &gathered.objects, &report.namespace, &report.name)?;
            let tree = observe(report, &gathered.objects, seconds);
            trees.extend(tree.map(|tree| (report.namespace.clone(), tree)));
        }
        if !failed {
            view.show(reports, &trees, started.elapsed());
        }
        if !reports.iter().any(ClusterReport::is_awaited) {
            return Ok(());
        }
        if started.elapsed() > timeout {
            return Ok(());
        }
    }
}

/// Updates a report from the objects, and returns the cluster's tree, or `None` if the cluster isn't among the objects.
fn observe(report: &mut ClusterReport, objects: &Objects, seconds: f64) -> Option<Tree> {
    report.update(objects, seconds);
    let tree = tree::tree(report.root, &report.namespace, objects);
    let running = report.is_running();
    let paused = pause::of_objects(objects)
        .map(|message| Blocking::pause(report.root, &report.namespace, &report.name, message));
    let blocking = paused.or_else(|| tree.as_ref()?.blocking.clone());
    report.blocking = blocking.filter(|_| !running);
    tree
}

/// Reads a cluster before it is changed, so that its report only shows the effects of the change.
///
/// # Errors
/// See [`gather::objects`].
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
