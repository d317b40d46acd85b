//! What N virtual machines cost, beside the least that they can cost.

use std::process::ExitCode;

use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bench::entry::main(|args| bench::scale::run(bench::scale::Flags::parse_from(args)))
}
