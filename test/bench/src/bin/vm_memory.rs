//! Measures the time and memory that the VM operator needs to start with N existing virtual VMs.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    bench::entry::main(|args| bench::memory::run(bench::memory::Flags::parse_from(args)))
}
