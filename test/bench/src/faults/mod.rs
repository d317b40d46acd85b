//! What the VM operator survives: it is killed, refused, cut off and deceived, and must come to the same end.

pub mod arena;
mod exhaustive;
mod findings;
mod report;
mod run;
mod state;
mod workload;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::Parser;

use crate::world::Wire;
use arena::{Arena, MARKER};
use exhaustive::{Choice, exhaustive};
pub use report::Report;

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
    let arena = Arena::start(flags.wire, &flags.log_level).await?;
    let mut report = Report { mode: "exhaustive", wire: flags.wire.name(), ..Report::default() };
    let choice = Choice { write: flags.write, sample: flags.sample };
    let outcome = exhaustive(&arena, &choice, &mut report).await;
    let log = report::since(arena.vmop.log(), 0);
    let vcenter = arena.world.vcenter();
    let secrets = [MARKER.to_owned(), vcenter.password()?, vcenter.door_token()?];
    report.leaks = report::leaks(&log, &secrets);
    if let Err(error) = &outcome {
        tracing::error!(%error, log = %report::kept(arena.vmop.log(), 0, "all").display(), "not finished");
    }
    arena.stop().await?;
    outcome?;
    report.seconds = began.elapsed().as_secs_f64();
    FAILED.store(!report.good(), Ordering::Relaxed);
    Ok(report)
}
