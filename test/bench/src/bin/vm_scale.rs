//! What N virtual VMs cost, beside the least that they can cost.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    bench::entry::main(|args| bench::scale::run(bench::scale::Flags::parse_from(args)))
}
