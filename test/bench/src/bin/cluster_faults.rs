//! What clusters survive.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let code =
        bench::entry::main(|args| bench::cluster_faults::run(bench::cluster_faults::Flags::parse_from(args)));
    if bench::cluster_faults::failed() { ExitCode::FAILURE } else { code }
}
