//! The entry point for the single executable: it is the benchmark, the programs under test and the guard.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

/// Runs the program that `argv[0]` names: the guard, `vmop`, `gcm`, `capw`, or by default `run`, whose report is
/// printed as JSON.
pub fn main<Report, Run>(run: impl FnOnce(Vec<OsString>) -> Run) -> ExitCode
where
    Report: Serialize,
    Run: Future<Output = Result<Report>>,
{
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    match name {
        Some(plane::guard::ARG0) => plane::guard::main(args),
        Some("vmop") => vmop::main(args),
        Some("gcm") => gcm::main(args),
        Some("capw") => capw::main(args),
        _ => exit_code(run_and_print(run(args))),
    }
}

/// Prints the error, if any, and returns the exit code.
pub fn exit_code(ended: Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_and_print<Report: Serialize>(run: impl Future<Output = Result<Report>>) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| "warn,bench=info,kube_client=off".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = run => report,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        }
    });
    runtime.shutdown_background();
    println!("{}", serde_json::to_string(&report?)?);
    Ok(())
}
