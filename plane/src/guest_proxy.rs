//! The proxy between a manager of Cluster API and workload clusters, as a process beside the manager.

use std::path::Path;
use std::time::Duration;

use components::guest_proxy;

use crate::cluster::Cluster;
use crate::error::{Doing, Error, Result};
use crate::process::Command;
use crate::supervise::Supervised;
use crate::{health, ports};

/// The name by which the executable is the program that has the proxy.
const PROGRAM: &str = "capw";
/// As for our programs: a part of what a process reserves is not used.
const DATA_MIB: u32 = 1024;
/// Losing a port to another program is rare.
const ATTEMPTS: usize = 5;
const READY: Duration = Duration::from_mins(1);

/// A proxy that is ready.
pub(crate) struct GuestProxy {
    pub process: Supervised,
    pub port: u16,
}

/// Starts the proxy of a manager, with the manager's account.
pub(crate) async fn start(
    cluster: &Cluster,
    manager: &str,
    exe: &Path,
    kubeconfig: &Path,
) -> Result<GuestProxy> {
    let mut attempt = 1;
    loop {
        match try_start(cluster, manager, exe, kubeconfig).await {
            Err(Error::PortTaken { .. }) if attempt < ATTEMPTS => attempt += 1,
            started => return started,
        }
    }
}

async fn try_start(cluster: &Cluster, manager: &str, exe: &Path, kubeconfig: &Path) -> Result<GuestProxy> {
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

/// The variables by which a manager uses the proxy on this machine. All that it reaches directly is on loopback.
pub(crate) fn variables(port: u16) -> [(&'static str, String); 2] {
    guest_proxy::variables(port, "localhost")
}
