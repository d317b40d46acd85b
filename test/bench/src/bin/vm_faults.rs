//! What the VM operator survives.

use std::process::ExitCode;

use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let code = bench::entry::main(|args| bench::faults::run(bench::faults::Flags::parse_from(args)));
    if bench::faults::failed() { ExitCode::FAILURE } else { code }
}
