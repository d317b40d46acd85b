//! Kills a program at a write while a cluster is created, scaled or deleted, or while a bootstrap cluster starts.
//!
//! A case is a program, a kind of write, and a step. The program is killed before or after its first such write in
//! the step. Clean runs list the cases. Each later cluster run then covers at most one case per step, and each
//! bootstrap cluster start covers one case.

mod bootstrap;
mod cases;
mod cluster_run;
mod command;
mod environment;
pub mod killer;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde::Serialize;

use crate::faults::CasePart;
use bootstrap::BootstrapTestbed;
use cases::{Case, RunStep, runs};
use cluster_run::{RunResult, run_cluster};
use environment::ManagementCluster;

/// Kills each of our programs at each of its writes while clusters are created and deleted, and reports lost and duplicated VMs.
#[derive(Clone, Debug, Parser)]
#[command(name = "cluster-faults")]
pub struct Flags {
    /// Only the case of this name, PROGRAM|STEP|WHAT|before or after, or all cases whose names begin so. Can be repeated.
    #[arg(long, value_name = "CASE")]
    pub case: Vec<String>,
    /// Only the I-th of N parts of all cases: the parts of one N are all cases, each once.
    #[arg(long, value_name = "I/N", conflicts_with = "case")]
    pub part: Option<CasePart>,
    /// Only the cases of these steps.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub steps: Vec<RunStep>,
    /// Only list the cases.
    #[arg(long)]
    pub list: bool,
    /// Append a line of JSON for each case to this file, so that parts that run at different times add up.
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// The commit, for the lines of the results.
    #[arg(long, default_value = "")]
    pub commit: String,
}

/// The report: counts and findings, summed over all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClusterFaultReport {
    /// All cases that the clean runs listed.
    pub cases: usize,
    /// Injected faults.
    pub injected: usize,
    /// Cases whose write didn't happen.
    pub missed: usize,
    /// Machines whose VM is missing in vCenter.
    pub lost: usize,
    /// VMs with another VM's identity.
    pub duplicated: usize,
    /// VMs and objects without an owner.
    pub orphaned: usize,
    /// Runs that didn't finish.
    pub stuck: usize,
    /// The findings, each prefixed with its case.
    pub failures: Vec<String>,
    pub seconds: f64,
}

impl ClusterFaultReport {
    /// Returns true if there are no findings.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }
}

static FAILED: AtomicBool = AtomicBool::new(false);

/// Returns true if [`run`] found a failure in this process.
pub fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

#[derive(Serialize)]
struct Line<'a> {
    commit: &'a str,
    case: String,
    injected: bool,
    wrong: &'a [String],
    seconds: f64,
}

/// Runs the cases that the flags select.
pub async fn run(flags: Flags) -> Result<ClusterFaultReport> {
    let began = Instant::now();
    let results = match &flags.results {
        Some(path) => {
            Some(File::options().create(true).append(true).open(path).context("cannot open --results")?)
        }
        None => None,
    };
    let has_any =
        |steps: &[RunStep]| flags.steps.is_empty() || flags.steps.iter().any(|step| steps.contains(step));
    let mut sum = Sum { flags: &flags, results, report: ClusterFaultReport::default() };
    if has_any(&RunStep::OF_CLUSTER) {
        let environment = ManagementCluster::start().await?;
        let once = run_clusters(&environment, &mut sum).await;
        environment.stop().await?;
        run_once(&once?, &mut sum).await?;
    }
    if has_any(&RunStep::OF_BOOTSTRAP) {
        let bootstrap = BootstrapTestbed::start().await?;
        run_starts(&bootstrap, &mut sum).await?;
        sum.report.failures.extend(bootstrap.stop().await?);
    }
    let mut report = sum.report;
    report.seconds = began.elapsed().as_secs_f64();
    FAILED.store(!report.is_clean(), Ordering::Relaxed);
    Ok(report)
}

/// The report so far, with the flags and the results file.
struct Sum<'a> {
    flags: &'a Flags,
    results: Option<File>,
    report: ClusterFaultReport,
}

impl Sum<'_> {
    /// Returns the cases that the flags select. With `--list`, logs them and returns an empty list.
    fn choose(&mut self, all: Vec<Case>) -> Vec<Case> {
        let flags = self.flags;
        let of_steps = |case: &Case| flags.steps.is_empty() || flags.steps.contains(&case.write.step);
        let is_chosen = |case: &Case| {
            of_steps(case)
                && flags.part.is_none_or(|part| part.has(case))
                && (flags.case.is_empty() || flags.case.iter().any(|name| case.to_string().starts_with(name)))
        };
        self.report.cases += all.len();
        let mut chosen: Vec<_> = all.into_iter().filter(is_chosen).collect();
        if flags.list {
            for case in chosen.drain(..) {
                tracing::info!(%case, "case");
            }
        }
        chosen
    }

    /// Adds one run's outcome, and appends it to the results file.
    fn add(&mut self, cases: &[Case], outcome: &RunResult, seconds: f64) -> Result<()> {
        let RunResult { wrong, injected, findings, .. } = outcome;
        let report = &mut self.report;
        report.lost += findings.lost;
        report.duplicated += findings.duplicated;
        report.orphaned += findings.orphaned;
        report.stuck += usize::from(findings.stuck);
        for case in cases {
            let injected = injected.contains(case);
            report.injected += usize::from(injected);
            report.missed += usize::from(!injected);
            if let Some(file) = &mut self.results {
                let commit = &self.flags.commit;
                let line = Line { commit, case: case.to_string(), injected, wrong, seconds };
                writeln!(file, "{}", serde_json::to_string(&line)?)?;
            }
        }
        let names: Vec<_> = cases.iter().map(ToString::to_string).collect();
        report.failures.extend(wrong.iter().map(|wrong| format!("{}: {wrong}", names.join(", "))));
        Ok(())
    }
}

/// Runs all cluster cases on one site. Returns the cases whose write didn't happen: a site makes releases and
/// templates from its images only for its first cluster.
async fn run_clusters(environment: &ManagementCluster, sum: &mut Sum<'_>) -> Result<Vec<Case>> {
    let clean = run_cluster(environment, "clean", &[], RunStep::Delete).await?;
    anyhow::ensure!(clean.wrong.is_empty(), "a run without faults: {}", clean.wrong.join("; "));
    let runs = runs(sum.choose(cases::of(&clean.writes)));
    let mut once = Vec::new();
    for (number, cases) in runs.iter().enumerate() {
        let began = Instant::now();
        let outcome = run_cluster(environment, &format!("c{number}"), cases, RunStep::Delete).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (came, missed): (Vec<_>, Vec<_>) =
            cases.iter().cloned().partition(|case| outcome.injected.contains(case));
        once.extend(missed);
        sum.add(&came, &outcome, seconds)?;
        tracing::info!(run = number, of = runs.len(), seconds, ok = outcome.wrong.is_empty(), "done");
    }
    Ok(once)
}

/// Runs each case on a new site, up to the case's step.
async fn run_once(cases: &[Case], sum: &mut Sum<'_>) -> Result<()> {
    for (number, case) in cases.iter().enumerate() {
        let began = Instant::now();
        let environment = ManagementCluster::start().await?;
        let outcome = run_cluster(&environment, "c", std::slice::from_ref(case), case.write.step).await;
        environment.stop().await?;
        let (outcome, seconds) = (outcome?, began.elapsed().as_secs_f64());
        sum.add(std::slice::from_ref(case), &outcome, seconds)?;
        tracing::info!(site = number, of = cases.len(), seconds, ok = outcome.wrong.is_empty(), %case, "done");
    }
    Ok(())
}

async fn run_starts(bootstrap: &BootstrapTestbed, sum: &mut Sum<'_>) -> Result<()> {
    let mut writes = BTreeSet::new();
    for (number, step) in RunStep::OF_BOOTSTRAP.into_iter().enumerate() {
        let clean = bootstrap.run_start(step, number, None).await?;
        anyhow::ensure!(clean.wrong.is_empty(), "a start without faults: {}", clean.wrong.join("; "));
        writes.extend(clean.writes);
    }
    let chosen = sum.choose(cases::of(&writes));
    for (number, case) in chosen.iter().enumerate() {
        let began = Instant::now();
        let outcome =
            bootstrap.run_start(case.write.step, number + RunStep::OF_BOOTSTRAP.len(), Some(case)).await?;
        let seconds = began.elapsed().as_secs_f64();
        sum.add(std::slice::from_ref(case), &outcome, seconds)?;
        tracing::info!(start = number, of = chosen.len(), seconds, ok = outcome.wrong.is_empty(), %case, "done");
    }
    Ok(())
}
