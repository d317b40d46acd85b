//! The `layercake` command, and what it is made of.
//!
//! The executable answers to several names. Called `gcm`, `capw` or `vmop` it is that controller, called
//! `layercake-guard` it is the process that cleans up after a stack: so one file is all there is to install.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)
)]

pub mod apply;
pub mod args;
pub mod background;
pub mod describe;
mod interrupts;
pub mod lint;
pub mod session;
pub mod stack;
pub mod up;
mod wait;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::{Cli, Command, Describe, Output};

/// Runs the program that the first argument names.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let name = args.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    let name = name.map(str::to_owned);
    match name.as_deref() {
        Some("gcm") => gcm::main(args),
        Some("capw") => capw::main(args),
        Some("vmop") => vmop::main(args),
        Some("layercake-guard") => plane::guard::main(args),
        name => command(parsed(name, args)),
    }
}

/// The command line; kubectl's users find kubectl's words in the usage text.
fn parsed(name: Option<&str>, args: Vec<OsString>) -> Cli {
    let mut command = Cli::command();
    if let Some(plugin) = name.and_then(|name| name.strip_prefix("kubectl-")) {
        command = command.bin_name(format!("kubectl {}", plugin.replace('_', "-")));
    }
    let found = Cli::from_arg_matches(&command.get_matches_from(args));
    found.unwrap_or_else(|error| error.exit())
}

/// Writes to standard output; a reader that has gone away is not a reason to fail.
fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn command(cli: Cli) -> ExitCode {
    if let Command::Lint { manifests } = &cli.command {
        return lint::main(manifests);
    }
    // Another default may be installed already when the command runs inside a test.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| "warn,kube_client=off".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        match cli.command {
            Command::Up(args) => up::run(args).await,
            Command::Down => exit_code(background::stopped().await),
            Command::Describe { object } => exit_code(described(object).await),
            Command::Lint { .. } => ExitCode::SUCCESS,
        }
    });
    // A blocked read of a child's output must not hold the user up.
    runtime.shutdown_background();
    code
}

fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn described(object: Describe) -> anyhow::Result<()> {
    let Describe::Tkc { name, namespace, kubeconfig, context, output } = object;
    let client = session::client(kubeconfig.as_deref(), context.as_deref()).await?;
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let description = describe::describe(&client, &namespace, &name).await?;
    match output {
        Some(Output::Json) => out(&format!("{}\n", serde_json::to_string_pretty(&description)?)),
        None => out(&description.text()),
    }
    Ok(())
}
