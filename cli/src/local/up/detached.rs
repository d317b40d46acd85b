//! The stack of `up --detach`, which outlives the command that started it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;

use crate::args::Up;
use crate::local::serve;
use crate::local::session::StackSession;
use crate::local::simulated_site::vm_arguments;
use crate::local::stack::{Options, Stack};
use crate::state::daemon::Daemon;
use crate::state::home;
use crate::terminal::interrupts::Interrupts;
use crate::terminal::output::say;

fn daemon() -> Result<Daemon> {
    Ok(Daemon::new(home::folder()?.join("up"), "process", "the stack in the background"))
}

/// Returns the background stack's folder, if the stack is ready.
pub fn folder() -> Option<PathBuf> {
    daemon().and_then(|daemon| daemon.read::<StackSession>()).ok().flatten().map(|session| session.folder)
}

/// Returns the `up` flags that describe the stack, for the background process.
fn stack_arguments(args: &Up) -> Result<Vec<String>> {
    let mut arguments = vec![format!("--wire={}", args.wire.name())];
    let network = args.network.to_possible_value();
    arguments.extend(network.map(|network| format!("--network={}", network.get_name())));
    arguments.extend(vm_arguments(&args.vms())?);
    for (name, path) in &args.tools {
        arguments.push(format!("--tool={name}={}", path.display()));
    }
    Ok(arguments)
}

/// Starts a background stack and waits until it is ready. Fails if a background stack is already running. Returns
/// `None` if `given_up` resolves first.
pub async fn start(args: &Up, given_up: impl Future<Output = ()>) -> Result<Option<StackSession>> {
    let daemon = daemon()?;
    if let Some(process) = daemon.holder()? {
        let ready = daemon.read::<StackSession>()?.map_or_else(
            || "It is still starting".to_owned(),
            |session| format!("To use it: export KUBECONFIG={}", session.kubeconfig.display()),
        );
        bail!(
            "a stack already runs in the background (process {process}). {ready}. To stop it: layercake down. To start \
             another one, in another shell: export XDG_STATE_HOME=$(mktemp -d); layercake up --detach"
        );
    }
    say!("Starting a stack in the background. Its output is written to {}", daemon.log().display());
    let mut arguments = vec!["up".to_owned(), "--background".to_owned()];
    arguments.extend(stack_arguments(args)?);
    let is_ready = || Ok(daemon.read::<StackSession>()?.is_some());
    if !daemon.start(&arguments, is_ready, given_up).await? {
        return Ok(None);
    }
    let session = daemon.read()?;
    session.context("the background stack ended just after it was ready; see its log").map(Some)
}

/// Runs the background stack in this process until it is stopped or fails.
pub async fn serve(args: &Up, interrupts: Interrupts) -> Result<()> {
    let options = Options::of(args)?;
    serve::serve(&daemon()?, interrupts, async |interrupts| {
        Stack::start_unless(&options, interrupts.next()).await
    })
    .await
}

/// Waits until the background stack in process `process` ends, and returns an error that says so.
pub async fn ended(process: u32) -> anyhow::Error {
    match daemon() {
        Ok(daemon) => daemon.ended(process).await,
        Err(error) => error,
    }
}

/// Stops the background stack, even while it is starting.
pub async fn stop() -> Result<()> {
    let stopped = daemon()?.stop().await?;
    say!("{}", if stopped { "Stopped." } else { "No stack is running in the background." });
    Ok(())
}
