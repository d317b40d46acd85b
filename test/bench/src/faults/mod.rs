//! Injects faults into the VM operator: kills, refused calls, cut connections and stale views. It must reach the same
//! end state as without them.

mod environment;
mod exhaustive;
mod expected;
mod findings;
mod foreign_disks;
mod report;
mod run;
mod schedule;
mod site_events;
mod state;
mod trial;
mod workload;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::Parser;

use crate::testbed::WireFlag;
use environment::FaultTestbed;
pub use exhaustive::CasePart;
use exhaustive::{CaseSelection, run_exhaustive};
pub use report::FaultReport;
use trial::run_seeded;

/// Kills, refuses and deceives the VM operator, and reports what it did not survive.
#[derive(Clone, Debug, Parser)]
#[command(name = "vm-faults")]
pub struct Flags {
    /// The wire to vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: WireFlag,

    /// Every write of a clean run with the VM operator killed at it, every event held back, old views.
    #[arg(long)]
    pub exhaustive: bool,

    /// Only the case of this number, or those of this key (SIDE|WHAT|OBJECT|NTH).
    #[arg(long, value_name = "N", requires = "exhaustive")]
    pub write: Option<String>,

    /// Only so many cases, spread over all.
    #[arg(long, value_name = "COUNT", requires = "exhaustive")]
    pub sample: Option<usize>,

    /// Only the I-th of N parts of all cases: the parts of one N are all cases, each once.
    #[arg(long, value_name = "I/N", requires = "exhaustive", conflicts_with = "write")]
    pub part: Option<CasePart>,

    /// The first trial's seed; each further trial has the next.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// How many trials.
    #[arg(long, default_value_t = 1)]
    pub trials: u64,

    /// API servers and vCenters that share the work: most of a run's time is spent in waiting.
    #[arg(long = "arenas", value_name = "COUNT", default_value_t = 3)]
    pub environments: usize,

    /// Log level of the VM operator.
    #[arg(long, default_value = "info")]
    pub log_level: String,
}

static FAILED: AtomicBool = AtomicBool::new(false);

/// Returns true if a report in this process contains a violation.
pub fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Starts the environments and runs the mode that the flags select.
pub async fn run(flags: Flags) -> Result<FaultReport> {
    let began = Instant::now();
    let starts = (0..flags.environments.max(1)).map(|_| FaultTestbed::start(flags.wire, &flags.log_level));
    let environments = futures::future::try_join_all(starts).await?;
    let mode = if flags.exhaustive { "exhaustive" } else { "seeded" };
    let report = RefCell::new(FaultReport { mode, wire: flags.wire.name(), ..FaultReport::default() });
    let choice = CaseSelection { write: flags.write, sample: flags.sample, part: flags.part };
    let outcome = if flags.exhaustive {
        run_exhaustive(&environments, &choice, &report).await
    } else {
        run_seeded(&environments, flags.seed, flags.trials, &report).await
    };
    let mut report = report.into_inner();
    for (number, environment) in environments.into_iter().enumerate() {
        let (log, secrets) = (environment.vmop.log(), environment.secrets().await?);
        for log in [log, environment.second_vmop.log()] {
            report.leaks += report::count_leaks(&report::read_from(log, 0), &secrets);
        }
        report.leaks += environment.leaks.get();
        if outcome.is_err() || report.leaks > 0 {
            let kept = report::keep_log(log, 0, &format!("all-{number}"));
            tracing::error!(log = %kept.display(), "the log is kept");
        }
        environment.stop().await?;
    }
    outcome?;
    report.seconds = began.elapsed().as_secs_f64();
    FAILED.store(!report.is_clean(), Ordering::Relaxed);
    Ok(report)
}
