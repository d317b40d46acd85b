//! What the VM operator takes to know N virtual VMs that are there already.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    bench::entry::main(|args| bench::memory::run(bench::memory::Flags::parse_from(args)))
}
