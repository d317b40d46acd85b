//! `vm-memory`: what the VM operator takes to know N virtual machines that are there already.

use anyhow::{Result, bail};
use clap::Parser;
use serde::Serialize;

/// Starts the VM operator on machines that exist already, and measures its memory.
#[derive(Clone, Debug, Parser)]
#[command(name = "vm-memory")]
pub struct Flags {
    /// How many machines.
    #[arg(long, default_value_t = 10_000)]
    pub count: usize,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many machines.
    pub count: usize,
}

/// Measures.
pub async fn run(flags: Flags) -> Result<Report> {
    bail!("{} machines: not measured yet", flags.count)
}
