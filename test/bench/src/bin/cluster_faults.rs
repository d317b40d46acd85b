//! Kills programs while clusters and bootstrap clusters are created, and counts lost, duplicated and orphaned VMs.

use std::path::Path;
use std::process::ExitCode;

use bench::cluster_faults::{Flags, failed, killer, run};
use clap::Parser as _;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    killer::start(&args);
    if args.first().is_some_and(|name| Path::new(name).file_name() == Some(killer::COMMAND.as_ref())) {
        return layercake::main(args);
    }
    let code = bench::entry::main(|args| run(Flags::parse_from(args)));
    if failed() { ExitCode::FAILURE } else { code }
}
