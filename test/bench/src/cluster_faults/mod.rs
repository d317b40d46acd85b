//! What clusters survive: a program is killed at a write while a cluster is created, scaled or deleted.
//!
//! A case is a program, what it writes, and the step of the cluster's life in which it first does so, with the program killed just
//! before the write or just after it. A clean life shows all cases. Afterwards each life has one case of each step.

mod cases;
mod environment;
mod life;

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde::Serialize;

use crate::faults::CasePart;
use cases::{Case, lives};
use environment::Environment;
use life::Outcome;

/// Kills each of our programs at each of its writes while clusters come and go, and reports what was not survived.
#[derive(Clone, Debug, Parser)]
#[command(name = "cluster-faults")]
pub struct Flags {
    /// Only the case of this name: PROGRAM|STEP|WHAT|before or after.
    #[arg(long, value_name = "CASE")]
    pub case: Option<String>,
    /// Only the I-th of N parts of all cases: the parts of one N are all cases, each once.
    #[arg(long, value_name = "I/N", conflicts_with = "case")]
    pub part: Option<CasePart>,
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

/// The sum of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClusterFaultReport {
    /// All cases that the clean life showed.
    pub cases: usize,
    /// Faults that were injected.
    pub injected: usize,
    /// Cases whose write did not come.
    pub missed: usize,
    /// VMs of Machines that vCenter does not have.
    pub lost: usize,
    /// VMs with the identity of another.
    pub duplicated: usize,
    /// VMs and objects that belong to nothing.
    pub orphaned: usize,
    /// Lives that did not come to their end.
    pub stuck: usize,
    /// What was wrong, with the case.
    pub failures: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

impl ClusterFaultReport {
    /// Whether everything was survived.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }
}

static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether a report of this process has a failure.
pub fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// A line of the results.
#[derive(Serialize)]
struct Line<'a> {
    commit: &'a str,
    case: String,
    injected: bool,
    wrong: &'a [String],
    seconds: f64,
}

/// Runs what the flags ask for.
pub async fn run(flags: Flags) -> Result<ClusterFaultReport> {
    let began = Instant::now();
    let environment = Environment::start().await?;
    let report = RefCell::new(ClusterFaultReport::default());
    let outcome = run_cases(&environment, &flags, &report).await;
    environment.stop().await?;
    outcome?;
    let mut report = report.into_inner();
    report.seconds = began.elapsed().as_secs_f64();
    FAILED.store(!report.is_clean(), Ordering::Relaxed);
    Ok(report)
}

async fn run_cases(
    environment: &Environment,
    flags: &Flags,
    report: &RefCell<ClusterFaultReport>,
) -> Result<()> {
    let mut results = match &flags.results {
        Some(path) => {
            Some(File::options().create(true).append(true).open(path).context("cannot open --results")?)
        }
        None => None,
    };
    let clean = life::live(environment, "clean", &[]).await?;
    anyhow::ensure!(clean.wrong.is_empty(), "a life without faults: {}", clean.wrong.join("; "));
    let all = cases::of(&clean.writes);
    report.borrow_mut().cases = all.len();
    let is_chosen = |case: &Case| {
        flags.part.is_none_or(|part| part.has(case))
            && flags.case.as_ref().is_none_or(|name| *name == case.to_string())
    };
    let chosen: Vec<_> = all.into_iter().filter(is_chosen).collect();
    if flags.list {
        for case in &chosen {
            tracing::info!(%case, "case");
        }
        return Ok(());
    }
    let lives = lives(chosen);
    for (number, cases) in lives.iter().enumerate() {
        let began = Instant::now();
        let Outcome { wrong, injected, findings, .. } =
            life::live(environment, &format!("c{number}"), cases).await?;
        let seconds = began.elapsed().as_secs_f64();
        let mut report = report.borrow_mut();
        report.lost += findings.lost;
        report.duplicated += findings.duplicated;
        report.orphaned += findings.orphaned;
        report.stuck += usize::from(findings.stuck);
        for case in cases {
            let injected = injected.contains(case);
            report.injected += usize::from(injected);
            report.missed += usize::from(!injected);
            if let Some(file) = &mut results {
                let line =
                    Line { commit: &flags.commit, case: case.to_string(), injected, wrong: &wrong, seconds };
                writeln!(file, "{}", serde_json::to_string(&line)?)?;
            }
        }
        let names: Vec<_> = cases.iter().map(ToString::to_string).collect();
        report.failures.extend(wrong.iter().map(|wrong| format!("{}: {wrong}", names.join(", "))));
        tracing::info!(life = number, of = lives.len(), seconds, ok = wrong.is_empty(), "done");
    }
    Ok(())
}
