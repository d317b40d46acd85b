//! What a running program hands to its parts. Each part takes from it what it needs, and keeps no more.

use std::sync::Arc;

use kube::Client;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::expectations::Expectations;
use crate::leadership::Leadership;
pub use crate::leadership::NotLeader;
use crate::metrics::Metrics;
use crate::serve::Readiness;
use crate::tenure::Tenure;

/// Requests of controllers to the API server that are in flight at a time; watches and leases are none. They are first come,
/// first served: each takes a place for one request, which has an end of its own, and a namespace has no more of them in the
/// queue than it has slots.
pub(crate) const API_PERMITS: usize = 32;

/// What a running program has to work with.
#[derive(Clone)]
pub struct Runtime {
    /// The API server.
    pub client: Client,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// What must be so before this replica counts as ready.
    pub ready: Readiness,
    /// Cancelled when the program is to end.
    pub shutdown: CancellationToken,
    /// Who this replica is: in the lease, and in events.
    pub identity: String,
    /// The program's own namespace.
    pub namespace: String,
    /// What this process wrote, and caches must show before anybody acts on them.
    pub expectations: Arc<Expectations>,
    /// Taken for each request to the API server: more at once make it slower, and the lease wait.
    pub api_permits: Arc<Semaphore>,
    pub(crate) leadership: Leadership,
}

impl Runtime {
    /// Resolves when this replica may act. From then on the lease is renewed; once it is lost the process exits.
    ///
    /// What the replica's readiness requires is named before.
    pub async fn lead(&self) -> Result<(), NotLeader> {
        self.ready.started();
        self.leadership.acquire(&self.shutdown).await?;
        self.metrics.set_leading(true);
        Ok(())
    }

    /// Tells whether this replica may still write, by the age of its lease. [`Self::client`] asks it before each request that
    /// changes something; whoever changes something elsewhere asks it himself.
    pub fn tenure(&self) -> Tenure {
        self.leadership.tenure.clone()
    }

    /// Everything but a lease: for tests, and for commands that only read.
    pub fn detached(client: Client) -> Self {
        Self {
            client,
            metrics: Arc::default(),
            ready: Readiness::default(),
            shutdown: CancellationToken::new(),
            identity: "test".into(),
            namespace: "default".into(),
            expectations: Arc::default(),
            api_permits: Arc::new(Semaphore::new(API_PERMITS)),
            leadership: Leadership::new(None),
        }
    }
}
