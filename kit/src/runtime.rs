//! The state that a running program shares with its parts. Each part keeps only what it needs.

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

/// The maximum number of concurrent API requests by controllers, not counting watches and lease requests. Permits are granted in
/// order of arrival. A permit is held for one request, which has its own timeout, and a namespace can't queue more requests than
/// it has slots.
pub(crate) const API_PERMITS: usize = 32;

/// The clients and shared state that a running program works with.
#[derive(Clone)]
pub struct Runtime {
    /// The client for the program's API server.
    pub client: Client,
    /// The metrics registry.
    pub metrics: Arc<Metrics>,
    /// The requirements that this replica must meet to be ready.
    pub ready: Readiness,
    /// Canceled when the program must shut down.
    pub shutdown: CancellationToken,
    /// The identity that this replica uses in the lease and in events.
    pub identity: String,
    /// The program's own namespace.
    pub namespace: String,
    /// The writes by this process that a cache must contain before a controller acts on the cache.
    pub expectations: Arc<Expectations>,
    /// The permits for API requests. More concurrent requests would slow down the API server and delay the lease.
    pub api_permits: Arc<Semaphore>,
    pub(crate) leadership: Leadership,
}

impl Runtime {
    /// Waits until this replica may act. From then on, the lease is renewed, and the process exits once the lease is lost.
    ///
    /// Register all readiness requirements before this call.
    pub async fn lead(&self) -> Result<(), NotLeader> {
        self.ready.started();
        self.leadership.acquire(&self.shutdown).await?;
        self.metrics.set_leading(true);
        Ok(())
    }

    /// Returns the tenure, which uses the age of the lease to check if this replica may still write. [`Self::client`] checks
    /// the tenure before each request that changes something. Code that makes changes elsewhere, such as in vCenter, must check
    /// the tenure itself.
    pub fn tenure(&self) -> Tenure {
        self.leadership.tenure.clone()
    }

    /// Creates a runtime without a lease, for tests and for commands that only read.
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
