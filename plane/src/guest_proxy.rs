//! Runs the guest proxy between a Cluster API manager and workload clusters, as a process beside the manager.

use std::path::Path;
use std::time::Duration;

use components::guest_proxy;

use crate::cluster::RunningApiServer;
use crate::error::{OperationContext, Result};
use crate::process::Command;
use crate::supervise::Supervised;
use crate::{health, ports};

/// The `argv[0]` with which the executable acts as capw, the program that contains the proxy.
const PROGRAM: &str = "capw";
/// The process limit for reserved memory, in MiB. As with Layercake's other programs, the process doesn't use all the
/// memory that it reserves.
const DATA_MIB: u32 = 1024;
const READY: Duration = Duration::from_mins(1);

/// A running proxy that is ready for connections.
pub(crate) struct GuestProxy {
    pub process: Supervised,
    pub port: u16,
}

/// Starts a manager's proxy, and waits until it is ready. `kubeconfig` contains the manager's ServiceAccount token.
pub(crate) async fn start(
    cluster: &RunningApiServer,
    manager: &str,
    exe: &Path,
    kubeconfig: &Path,
) -> Result<GuestProxy> {
    ports::retry_if_taken(async || try_start(cluster, manager, exe, kubeconfig).await).await
}

async fn try_start(
    cluster: &RunningApiServer,
    manager: &str,
    exe: &Path,
    kubeconfig: &Path,
) -> Result<GuestProxy> {
    let [port, health, metrics] = ports::free().doing(|| "find free ports".to_owned())?;
    let name = format!("{manager}-guest-proxy");
    let on_loopback = |port: u16| format!("127.0.0.1:{port}");
    let command = Command::new(&cluster.stack, &name, exe)?
        .arg0(PROGRAM)
        .args(guest_proxy::arguments(port, &on_loopback(health), &on_loopback(metrics)))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .env("POD_NAME", format!("{name}-0"))
        .memory(DATA_MIB);
    let process = Supervised::start(command)?;
    let what = format!("{name} is not ready");
    match process.until(&what, READY, async || health::answers(health, "/readyz").await).await {
        Ok(()) => Ok(GuestProxy { process, port }),
        Err(error) => {
            process.stop(Duration::ZERO).await;
            Err(error)
        }
    }
}

/// Returns the environment variables that make a manager use the proxy on `port`. The manager reaches only loopback
/// addresses without the proxy.
pub(crate) fn variables(port: u16) -> [(&'static str, String); 2] {
    guest_proxy::variables(port, "localhost")
}
