//! What the VM operator survives: it is killed, refused, cut off and deceived, and must come to the same end.

pub mod arena;
mod disks;
mod exhaustive;
mod fate;
mod findings;
mod report;
mod run;
mod schedule;
mod state;
mod trial;
mod workload;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::Parser;

use crate::world::Wire;
use arena::Arena;
use exhaustive::{Choice, Part, exhaustive};
pub use report::Report;
use trial::seeded;

/// Kills, refuses and deceives the VM operator, and tells what it did not survive.
#[derive(Clone, Debug, Parser)]
#[command(name = "vm-faults")]
pub struct Flags {
    /// The wire to vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: Wire,

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
    pub part: Option<Part>,

    /// The first trial's seed; each further trial has the next.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// How many trials.
    #[arg(long, default_value_t = 1)]
    pub trials: u64,

    /// API servers and vCenters that share the work: most of a run's time is spent in waiting.
    #[arg(long, default_value_t = 3)]
    pub arenas: usize,

    /// Log level of the VM operator.
    #[arg(long, default_value = "info")]
    pub log_level: String,
}

static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether a report of this process told of anything wrong.
pub fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Runs what the flags ask for.
pub async fn run(flags: Flags) -> Result<Report> {
    let began = Instant::now();
    let starts = (0..flags.arenas.max(1)).map(|_| Arena::start(flags.wire, &flags.log_level));
    let arenas = futures::future::try_join_all(starts).await?;
    let mode = if flags.exhaustive { "exhaustive" } else { "seeded" };
    let report = RefCell::new(Report { mode, wire: flags.wire.name(), ..Report::default() });
    let choice = Choice { write: flags.write, sample: flags.sample, part: flags.part };
    let outcome = if flags.exhaustive {
        exhaustive(&arenas, &choice, &report).await
    } else {
        seeded(&arenas, flags.seed, flags.trials, &report).await
    };
    let mut report = report.into_inner();
    for (number, arena) in arenas.into_iter().enumerate() {
        let (log, secrets) = (arena.vmop.log(), arena.secrets().await?);
        for log in [log, arena.rival.log()] {
            report.leaks += report::leaks(&report::since(log, 0), &secrets);
        }
        report.leaks += arena.leaks.get();
        if outcome.is_err() || report.leaks > 0 {
            let kept = report::kept(log, 0, &format!("all-{number}"));
            tracing::error!(log = %kept.display(), "the log is kept");
        }
        arena.stop().await?;
    }
    outcome?;
    report.seconds = began.elapsed().as_secs_f64();
    FAILED.store(!report.good(), Ordering::Relaxed);
    Ok(report)
}
