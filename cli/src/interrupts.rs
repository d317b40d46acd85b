//! The signals by which a user or the system ends us.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

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
