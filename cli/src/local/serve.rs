//! Runs a part of this machine's stacks in a background process.

use anyhow::Result;

use crate::state::daemon::Daemon;
use crate::terminal::interrupts::Interrupts;

/// Processes that a background process runs for other commands.
pub trait Served {
    /// Writes the record for other commands, and keeps it up to date. Returns only if the processes fail.
    async fn run(&self, daemon: &Daemon) -> Result<()>;

    /// Stops all processes.
    async fn stop(self);
}

/// Starts processes with `start`, and runs them until this process is interrupted or they fail. `start` returns `None`
/// if it was interrupted.
///
/// # Errors
/// Returns an error if another process runs `daemon`, or if the processes don't start or fail.
pub async fn serve<S: Served>(
    daemon: &Daemon,
    mut interrupts: Interrupts,
    start: impl AsyncFnOnce(&mut Interrupts) -> Result<Option<S>>,
) -> Result<()> {
    let _lock = daemon.acquire().await?;
    let Some(served) = start(&mut interrupts).await? else { return Ok(()) };
    let outcome = tokio::select! {
        outcome = served.run(daemon) => outcome,
        () = interrupts.next() => Ok(()),
    };
    let cleared = daemon.clear();
    served.stop().await;
    outcome.and(cleared)
}
