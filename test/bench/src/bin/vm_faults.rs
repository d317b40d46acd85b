//! Kills the VM operator, refuses its calls, and checks that it recovers.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let code = bench::entry::main(|args| bench::faults::run(bench::faults::Flags::parse_from(args)));
    if bench::faults::failed() { ExitCode::FAILURE } else { code }
}
