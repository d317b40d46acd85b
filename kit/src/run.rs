//! The life of a controller program: flags, logs, client, servers, lease, work, a clean end.

use crate::{
    expectations::Expectations,
    flags::Common,
    lease::Elections,
    metrics::Metrics,
    serve::{self, Readiness},
    telemetry,
};
use kube::{Client, Config, config::Kubeconfig};
use std::{error::Error, process::ExitCode, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Anything that ends a program; printed with its causes.
pub type Fatal = Box<dyn Error + Send + Sync>;

/// Reconciles that have begun get this long to end after a shutdown is asked for.
const GRACE: Duration = Duration::from_secs(15);

/// Requests of controllers to the API server that are in flight at a time; watches and leases are none.
const API_PERMITS: usize = 32;

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
    /// What this process wrote.
    pub expectations: Arc<Expectations>,
    /// Who may ask the API server now: more at once make it slower, and the lease wait.
    pub api_permits: Arc<Semaphore>,
    elections: Option<Elections>,
    lost: CancellationToken,
}

/// The program is ending before it came to lead.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("shut down before this replica held the lease")]
pub struct NotLeader;

impl Runtime {
    /// Resolves when this replica may act. From then on the lease is renewed; once it is lost the process exits.
    pub async fn lead(&self) -> Result<(), NotLeader> {
        let Some(elections) = self.elections.clone() else {
            self.metrics.leads(true);
            return Ok(());
        };
        tracing::info!("waiting for the lease");
        let since = tokio::select! {
            since = elections.acquire() => since,
            () = self.shutdown.cancelled() => return Err(NotLeader),
        };
        tracing::info!("holding the lease");
        self.metrics.leads(true);
        // A guard, so that a panic on the way ends the program too, and not only the renewals.
        let lost = self.lost.clone().drop_guard();
        tokio::spawn(async move {
            elections.keep(since).await;
            drop(lost);
        });
        Ok(())
    }

    /// For tests: everything but an API server and a lease.
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
            elections: None,
            lost: CancellationToken::new(),
        }
    }
}

/// Runs a controller program: all that programs have in common, then `start` until it ends.
///
/// `start` is called on every replica. It serves webhooks, then awaits [`Runtime::lead`], then runs its
/// controllers; they return once [`Runtime::shutdown`] is cancelled (SIGTERM, SIGINT). Then the lease is given up.
pub fn run<F, Fut>(name: &'static str, common: Common, start: F) -> ExitCode
where
    F: FnOnce(Runtime) -> Fut,
    Fut: Future<Output = Result<(), Fatal>>,
{
    telemetry::start(common.log_format, &common.log_level);
    // An Err means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(name, &error),
    };
    let ended = runtime.block_on(live(name, common, start));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(name, &*error),
    }
}

async fn live<F, Fut>(name: &'static str, common: Common, start: F) -> Result<(), Fatal>
where
    F: FnOnce(Runtime) -> Fut,
    Fut: Future<Output = Result<(), Fatal>>,
{
    let shutdown = CancellationToken::new();
    listen_for_signals(shutdown.clone())?;
    let prepared = prepare(name, common, shutdown.clone()).await?;
    let (lost, elections) = (prepared.lost.clone(), prepared.elections.clone());
    let ended = worked(start(prepared), &shutdown, GRACE, &lost).await?;
    if let Some(elections) = elections {
        elections.release().await;
    }
    match ended {
        Err(error) if !error.is::<NotLeader>() => Err(error),
        _ => Ok(()),
    }
}

/// How the work ended by itself; an error where it was cut short, and the lease must not be given up.
async fn worked<T>(
    work: impl Future<Output = T>,
    shutdown: &CancellationToken,
    grace: Duration,
    lost: &CancellationToken,
) -> Result<T, Fatal> {
    let out_of_time = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        ended = work => Ok(ended),
        // Also while shutting down: another replica may act from here on.
        () = lost.cancelled() => Err("the lease is lost: another replica acts now".into()),
        // Something is still being written: nobody may take over before the lease runs out.
        () = out_of_time => Err("reconciles did not end in time".into()),
    }
}

async fn prepare(name: &'static str, common: Common, shutdown: CancellationToken) -> Result<Runtime, Fatal> {
    let metrics = Arc::new(Metrics::new());
    let ready = Readiness::default();
    serve::health(common.health_address, ready.clone(), shutdown.clone())
        .await
        .map_err(|error| format!("--health-address {}: {error}", common.health_address))?;
    serve::metrics(common.metrics_address, Arc::clone(&metrics), shutdown.clone())
        .await
        .map_err(|error| format!("--metrics-address {}: {error}", common.metrics_address))?;
    let config = config(&common).await?;
    let own_namespace = std::env::var("POD_NAMESPACE").unwrap_or_else(|_| config.default_namespace.clone());
    let identity = identity(name);
    // The lease has a connection of its own: nothing that is asked for meanwhile keeps it back.
    let (client, leasing) = (crate::client::client(config.clone())?, crate::client::client(config)?);
    let lease_namespace = common.leader_election_namespace.as_ref().unwrap_or(&own_namespace);
    let elections = common.leader_elect.then(|| Elections::new(leasing, lease_namespace, name, &identity));
    tracing::info!(name, identity, version = env!("CARGO_PKG_VERSION"), "started");
    Ok(Runtime {
        client,
        metrics,
        ready,
        shutdown,
        identity,
        namespace: own_namespace,
        expectations: Arc::default(),
        api_permits: Arc::new(Semaphore::new(API_PERMITS)),
        elections,
        lost: CancellationToken::new(),
    })
}

async fn config(common: &Common) -> Result<Config, Fatal> {
    let Some(path) = &common.kubeconfig else {
        return Config::infer().await.map_err(|error| {
            format!("no API server: {error}; give --kubeconfig, set KUBECONFIG, or run in a pod").into()
        });
    };
    let kubeconfig = Kubeconfig::read_from(path)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?)
}

/// The pod's name, which a restarted container keeps; else one that nobody else has.
fn identity(name: &str) -> String {
    std::env::var("POD_NAME").unwrap_or_else(|_| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        format!("{}_{:016x}", if host.is_empty() { name } else { host }, rand::random::<u64>())
    })
}

fn listen_for_signals(shutdown: CancellationToken) -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutting down");
        shutdown.cancel();
    });
    Ok(())
}

/// Says on stderr, whatever the log level, why the program ends.
fn failed(name: &str, error: &dyn Error) -> ExitCode {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    eprintln!("{name}: {message}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn work_ends_by_itself_or_with_the_lease_or_out_of_time() {
        let (shutdown, lost) = (CancellationToken::new(), CancellationToken::new());
        assert_eq!(worked(ready(1), &shutdown, GRACE, &lost).await.unwrap(), 1);
        shutdown.cancel();
        let late = worked(pending::<()>(), &shutdown, Duration::ZERO, &lost).await.unwrap_err();
        assert_eq!(late.to_string(), "reconciles did not end in time");
        lost.cancel();
        let lost = worked(pending::<()>(), &shutdown, GRACE, &lost).await.unwrap_err();
        assert!(lost.to_string().starts_with("the lease is lost"), "{lost}");
    }
}
