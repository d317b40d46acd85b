//! Following clusters until they run: a live tree on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use super::progress::{self, Count, Milestone};
use crate::describe::{self, Blocking, gather, tree};

/// How often the objects are read while clusters come up.
const PACE: Duration = Duration::from_millis(700);
/// How long a cause must have held before a plain line mentions it.
const WORTH_MENTIONING: Duration = Duration::from_secs(20);

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
    fn new(namespace: &str, name: &str) -> Self {
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

    /// Whether the cluster runs.
    pub fn is_running(&self) -> bool {
        self.phase == "running"
    }
}

/// Follows the clusters `keys` (namespace, name) until all run or `timeout` has passed.
pub async fn followed(
    client: &Client,
    keys: &[(String, String)],
    timeout: Duration,
) -> Result<Vec<ClusterReport>> {
    let started = Instant::now();
    let mut reports: Vec<_> =
        keys.iter().map(|(namespace, name)| ClusterReport::new(namespace, name)).collect();
    let mut view = View::new();
    let mut ticks = tokio::time::interval(PACE);
    loop {
        ticks.tick().await;
        let mut trees = Vec::new();
        for report in reports.iter_mut().filter(|report| !report.is_running()) {
            let seconds = started.elapsed().as_secs_f64();
            if let Some(tree) = observed(client, report, seconds).await? {
                trees.push((report.namespace.clone(), tree));
            }
        }
        view.show(&reports, &trees, started.elapsed());
        if reports.iter().all(ClusterReport::is_running) || started.elapsed() > timeout {
            return Ok(reports);
        }
    }
}

/// Brings a report up to what the objects say now; returns the cluster's tree.
async fn observed(
    client: &Client,
    report: &mut ClusterReport,
    seconds: f64,
) -> Result<Option<describe::Node>> {
    let objects = gather::objects(client, &report.namespace, &report.name).await?;
    progress::reached(&mut report.milestones, &objects, seconds);
    report.phase = progress::phase(&objects);
    report.seconds = (seconds * 10.0).round() / 10.0;
    report.control_plane = progress::control_plane(&objects);
    report.workers = progress::workers(&objects);
    let tree = tree::tree(&objects);
    let running = report.is_running();
    report.blocking =
        tree.as_ref().filter(|_| !running).and_then(|tree| tree::blocking(&report.namespace, tree));
    Ok(tree)
}

/// What a person sees meanwhile, on standard error.
enum View {
    /// Redrawn in place; how many lines were drawn last.
    Live { drawn: usize },
    /// Lines as things happen; what was said of each cluster.
    Plain { said: BTreeMap<String, Said> },
}

#[derive(Default)]
struct Said {
    milestones: usize,
    blocking: Option<(Blocking, Duration, bool)>,
}

impl View {
    fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Live { drawn: 0 }
        } else {
            Self::Plain { said: BTreeMap::new() }
        }
    }

    fn show(&mut self, reports: &[ClusterReport], trees: &[(String, describe::Node)], elapsed: Duration) {
        match self {
            Self::Live { drawn } => *drawn = drawn_tree(*drawn, reports, trees, elapsed),
            Self::Plain { said } => {
                for report in reports {
                    let key = format!("{}/{}", report.namespace, report.name);
                    say(said.entry(key.clone()).or_default(), &key, report, elapsed);
                }
            }
        }
    }
}

fn say(said: &mut Said, key: &str, report: &ClusterReport, elapsed: Duration) {
    for milestone in &report.milestones[said.milestones..] {
        eprintln!("{:>6.1}s  {key}: {}", milestone.seconds, milestone.name);
    }
    said.milestones = report.milestones.len();
    let Some(blocking) = &report.blocking else { return };
    match &mut said.blocking {
        Some((known, since, mentioned)) if known == blocking => {
            if !*mentioned && elapsed.saturating_sub(*since) > WORTH_MENTIONING {
                let Blocking { object, reason, message } = blocking;
                eprintln!("{:>6.1}s  {key}: waits for {object}: {reason}: {message}", elapsed.as_secs_f64());
                *mentioned = true;
            }
        }
        other => *other = Some((blocking.clone(), elapsed, false)),
    }
}

/// Draws over the last drawing; returns how many lines it took.
fn drawn_tree(
    last: usize,
    reports: &[ClusterReport],
    trees: &[(String, describe::Node)],
    elapsed: Duration,
) -> usize {
    let (height, width) = console::Term::stderr().size();
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.is_running()) {
        let _ = writeln!(text, "{}/{} Running after {:.1} s", report.namespace, report.name, report.seconds);
    }
    for (namespace, tree) in trees {
        let blocking = tree::blocking(namespace, tree);
        text += &describe::print::text(blocking.as_ref(), tree, Timestamp::now());
    }
    let _ = write!(text, "{:.0} s", elapsed.as_secs_f64());
    let lines: Vec<String> = text
        .lines()
        .take(usize::from(height).saturating_sub(1))
        .map(|line| line.chars().take(usize::from(width)).collect())
        .collect();
    let mut terminal = std::io::stderr().lock();
    if last > 0 {
        let _ = write!(terminal, "\x1b[{last}A\x1b[J");
    }
    // A terminal that has gone away is not a reason to stop.
    let _ = writeln!(terminal, "{}", lines.join("\n"));
    lines.len()
}
