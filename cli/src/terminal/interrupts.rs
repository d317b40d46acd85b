//! The signals SIGINT and SIGTERM, with which a user or the system ends a command.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::exit::{ExitStatus, failed};

/// A listener for SIGINT and SIGTERM. It also keeps a signal that arrives between two calls of [`Self::next`].
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Starts listening. From then on, the signals don't kill this process.
    pub fn listening() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        let terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Runs `work` and returns its status. If a signal arrives first, calls `explain`, which tells the user what has begun,
/// and returns [`ExitStatus::Interrupted`].
pub fn until_interrupted(
    work: impl Future<Output = ExitStatus>,
    explain: impl FnOnce(),
) -> impl Future<Output = ExitStatus> {
    // A command's future is too large to embed in other futures.
    let work = Box::pin(work);
    async move {
        let mut interrupts = match Interrupts::listening() {
            Ok(interrupts) => interrupts,
            Err(error) => return failed(&error),
        };
        tokio::select! {
            status = work => status,
            () = interrupts.next() => {
                explain();
                ExitStatus::Interrupted
            }
        }
    }
}
