//! A controller program beside the API server: Cluster API's managers and ours alike.
//!
//! What a cluster would make of its manifests is made here: its rights, its account's token, its webhooks'
//! certificate, and a process with the arguments of its Deployment.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Caller, Cluster};
use crate::error::{Doing, Error, Result};
use crate::guest_proxy::{self, GuestProxy};
use crate::process::Command;
use crate::supervise::Supervised;
use crate::{health, objects, ports};
use components::catalogue::Component;
use components::manifest::{Deployment, Manifests};

/// The limits of our programs are for memory in use. Of memory that is reserved, they have up to twice as much: stacks of threads.
const RESERVED: u32 = 4;

/// Losing a port to somebody else is rare; losing five in a row is not bad luck.
const ATTEMPTS: usize = 5;
const READY: Duration = Duration::from_mins(1);

/// Where a program is to listen.
pub(crate) struct Wiring<'a> {
    pub kubeconfig: &'a Path,
    pub metrics: u16,
    pub health: u16,
    /// The webhook server's port and folder of certificates, if it has one.
    pub webhooks: Option<(u16, &'a Path)>,
    /// The way in which the webhook server recognizes the API server. `None` if it answers every client.
    pub caller: Option<&'a Caller>,
}

/// Ports on loopback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub metrics: u16,
    pub health: u16,
    pub webhooks: u16,
}

impl Ports {
    pub(crate) fn free() -> Result<Self> {
        let [metrics, health, webhooks] = ports::free().doing(|| "find free ports".to_owned())?;
        Ok(Self { metrics, health, webhooks })
    }
}

/// Makes a program's arguments of those of its Deployment and its wiring.
pub(crate) type Arguments<'a> = Box<dyn Fn(&Deployment, &Wiring) -> Vec<OsString> + Send + Sync + 'a>;

/// A program to be run with its manifests.
pub(crate) struct Workload<'a> {
    /// Its name in the stack.
    pub name: &'a str,
    pub exe: &'a Path,
    pub arg0: &'a str,
    pub manifests: &'a Manifests,
    /// Definitions whose objects it converts.
    pub converted: &'a [Value],
    /// The name of its Pod, if it had one.
    pub pod: String,
    /// Its webhook server answers the API server alone.
    pub recognizes_api_server: bool,
    /// The executable of the proxy through which it connects to workload clusters, if it uses one.
    pub guest_proxy: Option<&'a Path>,
    /// Arguments, given those of the Deployment and the wiring.
    pub args: Arguments<'a>,
}

/// A program that is ready.
pub(crate) struct Runtime {
    pub process: Supervised,
    /// The proxy beside it.
    pub guest_proxy: Option<Supervised>,
    pub ports: Ports,
}

impl<'a> Workload<'a> {
    /// Has it connect to workload clusters through a proxy of this executable, if it connects to them at all.
    pub(crate) fn through(mut self, guest_proxy: Option<&'a Path>) -> Self {
        let component = Component::of_manifests(self.arg0);
        self.guest_proxy = guest_proxy.filter(|_| component.is_some_and(Component::uses_guest_proxy));
        self
    }
}

impl Workload<'_> {
    /// Grants the rights, starts the process, waits until it is ready, and has its webhooks called.
    pub(crate) async fn start(&self, cluster: &Cluster, mut ports: Ports) -> Result<Runtime> {
        let client = &cluster.client;
        objects::apply_all(client, &self.manifests.namespaces).await?;
        objects::apply_all(client, &self.manifests.objects).await?;
        objects::aggregated(client, &self.manifests.objects).await?;
        let deployment = self.manifests.deployment.as_ref().ok_or_else(|| Error::Manifest {
            what: self.name.to_owned(),
            reason: "it has no Deployment".to_owned(),
        })?;
        let account = cluster.account(self.name, &deployment.namespace, &deployment.service_account).await?;
        let (guest_proxy, proxy_port) = match self.guest_proxy {
            Some(exe) => {
                let GuestProxy { process, port } =
                    guest_proxy::start(cluster, self.name, exe, &account).await?;
                (Some(process), Some(port))
            }
            None => (None, None),
        };
        let mut attempt = 1;
        loop {
            match self.started(cluster, deployment, &account, ports, proxy_port).await {
                Ok(process) => {
                    self.have_webhooks_called(cluster, ports).await?;
                    return Ok(Runtime { process, guest_proxy, ports });
                }
                Err(Error::PortTaken { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                    ports = Ports::free()?;
                    self.have_conversions_called(cluster, ports).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Applies the definitions whose objects this program converts, with the way to it.
    pub(crate) async fn have_conversions_called(&self, cluster: &Cluster, ports: Ports) -> Result<()> {
        let endpoint = cluster.endpoint(ports.webhooks, self.recognizes_api_server);
        objects::apply_all(&cluster.client, &endpoint.reached(self.converted)).await
    }

    async fn have_webhooks_called(&self, cluster: &Cluster, ports: Ports) -> Result<()> {
        let endpoint = cluster.endpoint(ports.webhooks, self.recognizes_api_server);
        objects::apply_all(&cluster.client, &endpoint.reached(&self.manifests.webhooks)).await
    }

    async fn started(
        &self,
        cluster: &Cluster,
        deployment: &Deployment,
        kubeconfig: &Path,
        ports: Ports,
        proxy_port: Option<u16>,
    ) -> Result<Supervised> {
        let certificate =
            deployment.serves_webhooks.then(|| cluster.webhook_certificate(self.name)).transpose()?;
        let caller = self.recognizes_api_server.then(|| cluster.caller()).transpose()?;
        let wiring = Wiring {
            kubeconfig,
            metrics: ports.metrics,
            health: ports.health,
            webhooks: certificate.as_deref().map(|folder| (ports.webhooks, folder)),
            caller: caller.as_ref(),
        };
        let mut command = Command::new(&cluster.stack, self.name, self.exe)?
            .arg0(self.arg0)
            .args((self.args)(deployment, &wiring))
            .env("POD_NAMESPACE", &deployment.namespace)
            .env("POD_NAME", &self.pod);
        for (name, value) in &deployment.env {
            command = command.env(name, value);
        }
        for (name, value) in proxy_port.into_iter().flat_map(guest_proxy::variables) {
            command = command.env(name, value);
        }
        if let Some(mib) = memory_mib(self.arg0) {
            command = command.memory(mib);
        }
        let process = Supervised::start(command)?;
        let what = format!("{} is not ready", self.name);
        match process.until(&what, READY, async || health::answers(ports.health, "/readyz").await).await {
            Ok(()) => Ok(process),
            Err(error) => {
                process.stop(Duration::ZERO).await;
                Err(error)
            }
        }
    }
}

/// The memory limit of a program as a process, in MiB.
fn memory_mib(program: &str) -> Option<u32> {
    let component = Component::of_manifests(program)?;
    let factor = if component.is_upstream() { 1 } else { RESERVED };
    Some(component.memory.limit_mib * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manager_and_program_has_a_limit() {
        assert_eq!(memory_mib("capi-core"), Some(2048));
        for name in ["capi-kubeadm-bootstrap", "capi-kubeadm-control-plane", "gcm", "capw", "vmop"] {
            assert_eq!(memory_mib(name), Some(1024), "{name}");
        }
        assert_eq!(memory_mib("capi-ipam-in-cluster"), Some(256));
        assert_eq!(memory_mib("webhook-of-a-test"), None);
    }
}
