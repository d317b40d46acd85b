//! The signals by which a user or the system ends us.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{ExitStatus, failed};

/// The user's and the system's requests that we end; none is lost while we look elsewhere.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From now on the signals don't kill this process.
    pub fn listening() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        let terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
        Ok(Self { interrupt, terminate })
    }

    /// Comes back at the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Returns the status of `work`. If the user interrupts it, `explain` says what was begun.
pub fn until_interrupted(
    work: impl Future<Output = ExitStatus>,
    explain: impl FnOnce(),
) -> impl Future<Output = ExitStatus> {
    // A whole command is too large to be a part of other futures.
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
