//! Runs a controller program: flags, logs, client, servers, lease, work and shutdown.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kube::config::Kubeconfig;
use kube::{Client, Config};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::diagnostics;
use crate::flags::Common;
use crate::leadership::{Leadership, MakeElections, NotLeader};
use crate::lease::Elections;
use crate::metrics::Metrics;
use crate::runtime::{API_PERMITS, Runtime};
use crate::serve::{self, Readiness};
use crate::telemetry;

/// An error that ends a program. It is printed with its causes.
pub type Fatal = Box<dyn Error + Send + Sync>;

/// The time that running reconciles get to finish after the program is asked to shut down.
const GRACE: Duration = Duration::from_secs(15);
/// The time in which tasks that ignore the shutdown must reach a point where they can be dropped.
const END: Duration = Duration::from_secs(1);

/// Runs a controller program: sets up what all programs share, then runs `start` until it returns. `name` is the Lease name.
///
/// `start` is called on every replica. It serves webhooks, waits for [`Runtime::lead`], then runs its controllers.
/// The controllers return once [`Runtime::shutdown`] is canceled (SIGTERM, SIGINT). Then the lease is released.
pub fn run<F, Fut>(name: &'static str, common: Common, start: F) -> ExitCode
where
    F: FnOnce(Runtime) -> Fut,
    Fut: Future<Output = Result<(), Fatal>>,
{
    telemetry::start(common.log_format, &common.log_level);
    if let Err(error) = forbid_core_dumps() {
        tracing::warn!(%error, "a crash may leave a core dump that contains secrets");
    }
    // An error means that a provider is already installed. That provider works too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report_failure(name, &error),
    };
    let ended = runtime.block_on(run_to_end(name, common, start));
    runtime.shutdown_timeout(END);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(name, &*error),
    }
}

/// Prevents core dumps. A crash aborts the program, and its memory contains credentials and
/// bootstrap data, which must not reach a disk.
///
/// The limit applies only to dumps that the kernel writes. Handlers such as systemd-coredump receive
/// the memory regardless, unless the process isn't dumpable. A process that isn't dumpable also hides
/// its memory maps from its own user, which breaks developer tools, so this is done only in a Pod.
fn forbid_core_dumps() -> std::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

async fn run_to_end<F, Fut>(name: &'static str, common: Common, start: F) -> Result<(), Fatal>
where
    F: FnOnce(Runtime) -> Fut,
    Fut: Future<Output = Result<(), Fatal>>,
{
    let shutdown = CancellationToken::new();
    listen_for_signals(shutdown.clone())?;
    let prepared = prepare(name, common, shutdown.clone()).await?;
    let leadership = prepared.leadership.clone();
    let ended = run_until_shutdown(start(prepared), &shutdown, GRACE, &leadership.lost).await?;
    leadership.release().await;
    match ended {
        Err(error) if !error.is::<NotLeader>() => Err(error),
        _ => Ok(()),
    }
}

/// Runs `work` to its end. Returns an error if the lease is lost, or if the grace period after a shutdown ends first. After an
/// error, the lease must not be released.
async fn run_until_shutdown<T>(
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
        // Also applies during a shutdown, because another replica may act from here on.
        () = lost.cancelled() => Err("the lease is lost; another replica is active".into()),
        // A write may still be running, so another replica must not take over before the lease expires.
        () = out_of_time => Err("reconciles did not finish in time".into()),
    }
}

async fn prepare(name: &'static str, common: Common, shutdown: CancellationToken) -> Result<Runtime, Fatal> {
    let metrics = Arc::new(Metrics::new());
    let ready = Readiness::starting();
    serve::serve_health(common.health_address, ready.clone(), shutdown.clone())
        .await
        .map_err(|error| format!("--health-address {}: {error}", common.health_address))?;
    let config = load_config(&common).await?;
    let own_namespace = std::env::var("POD_NAMESPACE").unwrap_or_else(|_| config.default_namespace.clone());
    let identity = choose_identity(name);
    let lease_namespace = common.leader_election_namespace.as_ref().unwrap_or(&own_namespace);
    let elections = elections(config.clone(), lease_namespace.clone(), name, identity.clone());
    let leadership = Leadership::new(common.leader_elect.then_some(elections));
    let client = crate::client::of_leader(config, leadership.tenure.clone())?;
    serve_metrics(&common, &metrics, &client, &shutdown).await?;
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
        leadership,
    })
}

/// Creates the elections with their own client, so that other requests don't delay the lease.
fn elections(config: Config, namespace: String, name: &'static str, identity: String) -> MakeElections {
    Box::new(move || Ok(Elections::new(crate::client::client(config)?, &namespace, name, &identity)))
}

async fn serve_metrics(
    common: &Common,
    metrics: &Arc<Metrics>,
    client: &Client,
    shutdown: &CancellationToken,
) -> Result<(), Fatal> {
    let (address, metrics, stop) = (common.diagnostics_address, Arc::clone(metrics), shutdown.clone());
    let served = if common.insecure_diagnostics {
        serve::serve_plain_metrics(address, metrics, stop).await
    } else {
        diagnostics::serve(address, metrics, client.clone(), stop).await
    };
    served.map_err(|error| format!("--diagnostics-address {address}: {error}").into())
}

async fn load_config(common: &Common) -> Result<Config, Fatal> {
    let Some(path) = &common.kubeconfig else {
        return Config::infer().await.map_err(|error| {
            format!("no API server: {error}; give --kubeconfig, set KUBECONFIG, or run in a pod").into()
        });
    };
    let kubeconfig = Kubeconfig::read_from(path)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?)
}

/// Returns the Pod name, which a restarted container keeps. Outside a Pod, returns a unique name.
fn choose_identity(name: &str) -> String {
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

/// Prints the error that ends the program to stderr, regardless of the log level.
fn report_failure(name: &str, error: &dyn Error) -> ExitCode {
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
    use std::future::{pending, ready};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::lease::RELEASE;

    #[tokio::test]
    async fn work_ends_by_itself_or_with_the_lease_or_out_of_time() {
        let (shutdown, lost) = (CancellationToken::new(), CancellationToken::new());
        assert_eq!(run_until_shutdown(ready(1), &shutdown, GRACE, &lost).await.unwrap(), 1);
        shutdown.cancel();
        let late = run_until_shutdown(pending::<()>(), &shutdown, Duration::ZERO, &lost).await.unwrap_err();
        assert_eq!(late.to_string(), "reconciles did not finish in time");
        lost.cancel();
        let lost = run_until_shutdown(pending::<()>(), &shutdown, GRACE, &lost).await.unwrap_err();
        assert!(lost.to_string().starts_with("the lease is lost"), "{lost}");
    }

    /// Returns all files below a folder.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_deployment_gives_its_program_the_time_to_end() {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
        let mut seen = 0;
        // Cluster API's programs end in their own time.
        let is_ours = |file: &&PathBuf| {
            file.extension().is_some_and(|kind| kind == "yaml") && !file.starts_with(config.join("upstream"))
        };
        for file in files(&config).iter().filter(is_ours) {
            let text = std::fs::read_to_string(file).unwrap();
            for document in
                text.split("\n---").filter(|text| text.lines().any(|line| line == "kind: Deployment"))
            {
                seen += 1;
                let given = document
                    .lines()
                    .find_map(|line| line.trim().strip_prefix("terminationGracePeriodSeconds: "));
                let given = Duration::from_secs(given.expect("a grace period").parse().unwrap());
                // Running reconciles finish, the lease is released, the runtime shuts down.
                let needed = GRACE + RELEASE + END;
                assert!(given >= needed, "{}: {given:?} of {needed:?}", file.display());
            }
        }
        assert!(seen >= 3, "{seen} Deployments in {}", config.display());
    }
}
