//! Whether this replica may act: while it holds the lease, or always where it is surely the only one.

use tokio_util::sync::CancellationToken;

use crate::lease::Elections;

/// The program is ending before it came to lead.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("shut down before this replica held the lease")]
pub struct NotLeader;

/// This replica's claim to lead. Clones share it.
#[derive(Clone)]
pub(crate) struct Leadership {
    /// None where there is no other replica to contend with.
    elections: Option<Elections>,
    /// Cancelled when the lease is lost: another replica may act then.
    pub lost: CancellationToken,
}

impl Leadership {
    /// Leads by the lease of `elections`, or from the beginning where there is none.
    pub fn new(elections: Option<Elections>) -> Self {
        Self { elections, lost: CancellationToken::new() }
    }

    /// Resolves when this replica leads. The lease is renewed from then on; `lost` is cancelled when that fails.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Result<(), NotLeader> {
        let Some(elections) = self.elections.clone() else { return Ok(()) };
        tracing::info!("waiting for the lease");
        let since = tokio::select! {
            since = elections.acquire() => since,
            () = shutdown.cancelled() => return Err(NotLeader),
        };
        tracing::info!("holding the lease");
        // A guard, so that a panic on the way ends the program too, and not only the renewals.
        let lost = self.lost.clone().drop_guard();
        tokio::spawn(async move {
            elections.keep(since).await;
            drop(lost);
        });
        Ok(())
    }

    /// Gives the lease up, so that a successor need not wait for its end.
    pub async fn release(&self) {
        if let Some(elections) = &self.elections {
            elections.release().await;
        }
    }
}
