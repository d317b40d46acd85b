//! Feeds mutated input to all parsers of untrusted input, and measures the time and memory for each input.
//!
//! `fuzz --runs 2000 --seed 1` generates the same inputs on every machine. `fuzz --seconds 60` runs until the time is
//! up. An input fails if the parser panics, exceeds its target's memory or time, or quotes data that can come from a
//! Secret. A failing input is written to a file, and its message says how to repeat it.

mod input;
mod memory;
mod run;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::run::{Amount, FailedInput};
use crate::targets::{FuzzTarget, TARGETS};

/// Feeds mutated input to the parsers of untrusted input.
#[derive(Parser)]
struct Flags {
    /// Inputs for each target.
    #[arg(long, default_value_t = 2000, conflicts_with = "seconds")]
    runs: u64,
    /// Seconds for each target, instead of a number of inputs.
    #[arg(long)]
    seconds: Option<u64>,
    /// Decides all inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where inputs that fail are written.
    #[arg(long, default_value = "target/fuzz")]
    failures: PathBuf,
    /// Feeds this file to one target, once.
    #[arg(long, requires = "targets")]
    input: Option<PathBuf>,
    /// Targets; all if none is named.
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let chosen = match choose(&flags.targets) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("error: there is no target {unknown}; there are {}", known.join(", "));
            return ExitCode::from(2);
        }
    };
    let amount = flags.seconds.map_or(Amount::Runs(flags.runs), |s| Amount::Time(Duration::from_secs(s)));
    let mut passed = 0;
    let mut failed = 0;
    for target in chosen {
        let outcome = match &flags.input {
            Some(path) => run::once(target, path),
            None => run::target(target, amount, flags.seed, &flags.failures),
        };
        match outcome {
            Ok(report) => {
                passed += 1;
                println!("{report}");
            }
            Err(failure) => {
                failed += 1;
                report_failure(target, &failure);
            }
        }
    }
    println!("fuzz targets: {passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn choose(names: &[String]) -> Result<Vec<&'static FuzzTarget>, String> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let find = |name: &String| TARGETS.iter().find(|target| target.name == name).ok_or_else(|| name.clone());
    names.iter().map(find).collect()
}

fn report_failure(target: &FuzzTarget, failure: &FailedInput) {
    eprintln!("{}: {failure}", target.name);
}
