//! Compares the cost of N virtual VMs with a bare client.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    bench::entry::main(|args| bench::scale::run(bench::scale::Flags::parse_from(args)))
}
