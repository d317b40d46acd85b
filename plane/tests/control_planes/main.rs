//! Tests that need real control planes: their start and end, and the requests that admission policies refuse.
//!
//! The tests mostly wait, so they run concurrently.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::ExitCode;

use plane::{Error, guard, tools};
use tokio::runtime::Runtime;

use crate::policies::each_admission_rule_refuses_requests_that_no_other_rule_refuses;
use crate::stack::{a_kept_stack_is_resumed, an_ephemeral_stack_leaves_nothing, parent};

mod policies;
mod stack;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args[0] == guard::ARG0 {
        return guard::main(args);
    }
    if args.iter().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let runtime = Runtime::new().unwrap();
    if args.get(1).is_some_and(|arg| arg == "parent") {
        runtime.block_on(parent(args.get(2).map(Path::new)));
        return ExitCode::SUCCESS;
    }
    match tools::ensure(&tools::Options::default(), &*tools::progress()) {
        Err(error @ Error::NoGo { .. }) => eprintln!("SKIPPED: {error}"),
        tools => {
            let tools = tools.unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| runtime.block_on(an_ephemeral_stack_leaves_nothing()));
                scope.spawn(|| runtime.block_on(a_kept_stack_is_resumed()));
                runtime.block_on(each_admission_rule_refuses_requests_that_no_other_rule_refuses(tools));
            });
        }
    }
    ExitCode::SUCCESS
}
