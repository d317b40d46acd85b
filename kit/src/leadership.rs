//! Whether this replica may act: while it holds the lease, or always where it is surely the only one.
//!
//! The lease is contended for, renewed and given up on a thread of its own, with a runtime and a client of its own: work that
//! blocks every thread of the program's runtime keeps no renewal waiting. If the lease is lost all the same and the program does
//! not end, since those threads are blocked, that thread ends the process.

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

/// The program gets this long to end by itself when the lease is lost. Others act after 15 s without a renewal; it is lost after 10 s.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// How long giving the lease up may take: it has a limit of its own, which is shorter.
const RELEASE: Duration = Duration::from_secs(5);

/// The program is ending before it came to lead.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("shut down before this replica held the lease")]
pub struct NotLeader;

/// Makes the elections on the thread of the lease: a client lives in the runtime that it was made in.
pub(crate) type MakeElections =
    Box<dyn FnOnce() -> Result<Elections, Box<dyn std::error::Error + Send + Sync>> + Send>;

/// This replica's claim to lead. Clones share it.
#[derive(Clone)]
pub(crate) struct Leadership {
    /// None where there is no other replica to contend with, and once the thread of the lease runs.
    elections: Arc<Mutex<Option<MakeElections>>>,
    /// Cancelled when the lease is lost: another replica may act then.
    pub lost: CancellationToken,
    /// The age of the lease.
    pub tenure: Tenure,
    ended: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    /// Cancelled to have the lease given up.
    give_up: CancellationToken,
    last_grace: Duration,
    end_process: Arc<dyn Fn() + Send + Sync>,
}

impl Leadership {
    /// Leads by the lease of `elections`, or from the beginning where there is none.
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

    /// Resolves when this replica leads. The lease is renewed from then on; `lost` is cancelled when that fails.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Result<(), NotLeader> {
        let Some(elections) = self.elections.lock().take() else { return Ok(()) };
        tracing::info!("waiting for the lease");
        let (leads, leading) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        *self.ended.lock() = Some(ended);
        let leadership = self.clone();
        let thread = std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
            // A guard, so that a panic on the way ends the program too, and not only the renewals.
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

    /// Contends for the lease and renews it until it is lost, or given up: then true.
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

    /// Gives the lease up, so that a successor need not wait for its end.
    pub async fn release(&self) {
        self.give_up.cancel();
        let ended = self.ended.lock().take();
        if let Some(ended) = ended {
            // The thread says itself what went wrong.
            let _ = timeout(RELEASE, ended).await;
        }
    }
}

/// Ends the process at once, whatever its other threads do.
fn end_process() {
    eprintln!(
        "the lease is lost and the program does not exit by itself; exiting now, because another replica is active"
    );
    std::process::exit(1);
}

#[cfg(test)]
mod tests;
