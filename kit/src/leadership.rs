//! Decides if this replica may act: while it holds the lease, or always if leader election is disabled.
//!
//! The lease is acquired, renewed and released on its own thread, with its own runtime and client, so that
//! work which blocks all threads of the program's runtime doesn't delay a renewal. If the lease is lost
//! and the program doesn't exit because those threads are blocked, the lease thread ends the process.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::boot_time::Clock;
use crate::lease::Elections;
use crate::tenure::Tenure;

/// The time that the program gets to exit by itself after it loses the lease. The lease is lost
/// 10 s after the last renewal, and another replica acts after 15 s.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// The timeout for waiting for the lease thread to release the lease. The release itself has a shorter timeout.
const RELEASE: Duration = Duration::from_secs(5);

/// The error if the program shuts down before it becomes the leader.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("shut down before this replica held the lease")]
pub struct NotLeader;

/// Creates the elections on the lease thread, because a client belongs to the runtime in which it was created.
pub(crate) type MakeElections =
    Box<dyn FnOnce() -> Result<Elections, Box<dyn std::error::Error + Send + Sync>> + Send>;

/// This replica's claim to lead. Clones share it.
#[derive(Clone)]
pub(crate) struct Leadership {
    /// `None` without leader election, and after the lease thread has started.
    elections: Arc<Mutex<Option<MakeElections>>>,
    /// Canceled when the lease is lost, because another replica may act then.
    pub lost: CancellationToken,
    /// The age of the lease.
    pub tenure: Tenure,
    ended: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    /// Canceled to release the lease.
    give_up: CancellationToken,
    last_grace: Duration,
    end_process: Arc<dyn Fn() + Send + Sync>,
}

impl Leadership {
    /// Creates the claim of a replica that leads only while it holds the lease. Without `elections`, the replica leads from the
    /// start.
    pub fn new(elections: Option<MakeElections>) -> Self {
        Self {
            elections: Arc::new(Mutex::new(elections)),
            lost: CancellationToken::new(),
            tenure: Tenure::new(Clock::default()),
            ended: Arc::default(),
            give_up: CancellationToken::new(),
            last_grace: LAST_GRACE,
            end_process: Arc::new(end_process),
        }
    }

    /// Waits until this replica leads. From then on, the lease is renewed, and `lost` is canceled when renewing fails.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Result<(), NotLeader> {
        let Some(elections) = self.elections.lock().take() else { return Ok(()) };
        tracing::info!("waiting for the lease");
        let (leads, leading) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        *self.ended.lock() = Some(ended);
        let leadership = self.clone();
        let thread = std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
            // A guard, because a panic must end the program and not only the renewals.
            let lost = leadership.lost.clone().drop_guard();
            if leadership.hold(elections, leads) {
                lost.disarm();
            }
            let _ = ends.send(());
        });
        if let Err(error) = thread {
            tracing::error!(%error, "no thread for the lease");
            self.lost.cancel();
        }
        tokio::select! {
            Ok(()) = leading => {}
            () = shutdown.cancelled() => return Err(NotLeader),
        }
        tracing::info!("holding the lease");
        Ok(())
    }

    /// Acquires the lease and renews it. Returns true after it was released, or false after it was lost.
    fn hold(&self, elections: MakeElections, leads: oneshot::Sender<()>) -> bool {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "no runtime for the lease");
                return false;
            }
        };
        runtime.block_on(async {
            let elections = match elections() {
                Ok(elections) => elections,
                Err(error) => {
                    tracing::error!(error, "no client for the lease");
                    return false;
                }
            };
            let kept = async {
                let since = elections.acquire().await;
                self.tenure.renewed(since);
                let _ = leads.send(());
                elections.keep(since, &self.tenure).await;
            };
            tokio::select! {
                () = kept => {}
                () = self.give_up.cancelled() => {
                    elections.release().await;
                    return true;
                }
            }
            self.lost.cancel();
            sleep(self.last_grace).await;
            (self.end_process)();
            false
        })
    }

    /// Releases the lease, so that a successor doesn't have to wait until it expires.
    pub async fn release(&self) {
        self.give_up.cancel();
        let ended = self.ended.lock().take();
        if let Some(ended) = ended {
            // The lease thread logs errors itself.
            let _ = timeout(RELEASE, ended).await;
        }
    }
}

/// Ends the process at once, even if its other threads are blocked.
fn end_process() {
    eprintln!(
        "the lease is lost and the program does not exit by itself; exiting now, because another replica is active"
    );
    std::process::exit(1);
}

#[cfg(test)]
mod tests;
