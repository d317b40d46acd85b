//! The life of a controller program: flags, logs, client, servers, lease, work, a clean end.

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

/// Anything that ends a program; printed with its causes.
pub type Fatal = Box<dyn Error + Send + Sync>;

/// Reconciles that have begun get this long to end after a shutdown is asked for.
const GRACE: Duration = Duration::from_secs(15);
/// Tasks that do not look at a shutdown get this long to come to a point where they can be dropped.
const END: Duration = Duration::from_secs(1);

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
    if let Err(error) = forbid_core_dumps() {
        tracing::warn!(%error, "a crash may leave a core dump that contains secrets");
    }
    // An Err means that one is installed already, which is as good.
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

/// A crash ends the program by an abort, and its memory has credentials and bootstrap data in it: none of it is to reach a disk.
///
/// A limit binds what the kernel writes itself. Handlers such as systemd-coredump get the memory all the same, unless a process
/// can't be dumped; then its own user can't read its memory maps either, which tools on a developer's machine do.
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

/// Runs `work` to its end; an error where it was cut short, and the lease must not be given up.
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
        // Also while shutting down: another replica may act from here on.
        () = lost.cancelled() => Err("the lease is lost; another replica is active".into()),
        // Something is still being written: nobody may take over before the lease runs out.
        () = out_of_time => Err("reconciles did not finish in time".into()),
    }
}

async fn prepare(name: &'static str, common: Common, shutdown: CancellationToken) -> Result<Runtime, Fatal> {
    let metrics = Arc::new(Metrics::new());
    let ready = Readiness::starting();
    serve::health(common.health_address, ready.clone(), shutdown.clone())
        .await
        .map_err(|error| format!("--health-address {}: {error}", common.health_address))?;
    let config = config(&common).await?;
    let own_namespace = std::env::var("POD_NAMESPACE").unwrap_or_else(|_| config.default_namespace.clone());
    let identity = identity(name);
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

/// The lease has a client of its own: nothing that is asked for meanwhile keeps it back.
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
        serve::metrics(address, metrics, stop).await
    } else {
        diagnostics::serve(address, metrics, client.clone(), stop).await
    };
    served.map_err(|error| format!("--diagnostics-address {address}: {error}").into())
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

/// Prints on stderr, whatever the log level, why the program ends.
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

    /// The files of a folder and of those in it.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_deployment_gives_its_program_the_time_to_end() {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
        let mut seen = 0;
        for file in files(&config).iter().filter(|file| file.extension().is_some_and(|kind| kind == "yaml")) {
            let text = std::fs::read_to_string(file).unwrap();
            for document in
                text.split("\n---").filter(|text| text.lines().any(|line| line == "kind: Deployment"))
            {
                seen += 1;
                let given = document
                    .lines()
                    .find_map(|line| line.trim().strip_prefix("terminationGracePeriodSeconds: "));
                let given = Duration::from_secs(given.expect("a grace period").parse().unwrap());
                // What has begun ends, the lease is given up, the runtime goes.
                let needed = GRACE + RELEASE + END;
                assert!(given >= needed, "{}: {given:?} of {needed:?}", file.display());
            }
        }
        assert!(seen >= 3, "{seen} Deployments in {}", config.display());
    }
}
