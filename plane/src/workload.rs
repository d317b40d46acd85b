//! Runs controller programs beside the API server: Cluster API's managers and Layercake's own programs.
//!
//! A cluster would set everything up from the manifests. Here, this module applies the rights, requests the
//! ServiceAccount token, issues the webhook certificate, and starts a process with the Deployment's arguments.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use kit::objects::Objects;
use serde_json::Value;

use crate::cluster::{Caller, RunningApiServer};
use crate::error::{Error, OperationContext, Result};
use crate::guest_proxy::{self, GuestProxy};
use crate::process::Command;
use crate::supervise::Supervised;
use crate::{health, ports, rights};
use components::catalogue::Component;
use components::manifest::{Manifests, ProgramDeployment};

/// The ratio of a process's address space limit to the memory limit of its Deployment. The memory limit counts memory in
/// use. The address space also contains memory that is only reserved, in particular thread stacks.
const RESERVED: u32 = 4;

const READY: Duration = Duration::from_mins(1);

/// The kubeconfig, ports and certificates that become a program's arguments.
pub(crate) struct Wiring<'a> {
    pub kubeconfig: &'a Path,
    pub metrics: u16,
    pub health: u16,
    /// The webhook server's port and certificate folder, if the program serves webhooks.
    pub webhooks: Option<(u16, &'a Path)>,
    /// The files by which the webhook server recognizes the API server. `None` if the server accepts every client.
    pub caller: Option<&'a Caller>,
}

/// A program's ports on loopback.
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

/// Combines the Deployment's arguments with the wiring into the program's arguments.
pub(crate) type Arguments<'a> = Box<dyn Fn(&ProgramDeployment, &Wiring) -> Vec<OsString> + Send + Sync + 'a>;

/// A program to run, with its manifests.
pub(crate) struct Workload<'a> {
    /// The process name in the stack.
    pub name: &'a str,
    pub exe: &'a Path,
    pub arg0: &'a str,
    pub manifests: &'a Manifests,
    /// The CRDs whose objects the program converts.
    pub converted: &'a [Value],
    /// The Pod name for the program's environment.
    pub pod: String,
    /// True if the webhook server accepts only the API server.
    pub recognizes_api_server: bool,
    /// The guest proxy executable, if the program connects to workload clusters through a guest proxy.
    pub guest_proxy: Option<&'a Path>,
    pub args: Arguments<'a>,
}

/// A running program that is ready.
pub(crate) struct RunningProgram {
    pub process: Supervised,
    /// The guest proxy beside the program.
    pub guest_proxy: Option<Supervised>,
    pub ports: Ports,
}

impl<'a> Workload<'a> {
    /// Sets the guest proxy executable, if the component connects to workload clusters.
    pub(crate) fn through(mut self, guest_proxy: Option<&'a Path>) -> Self {
        let component = Component::of_manifests(self.arg0);
        self.guest_proxy = guest_proxy.filter(|_| component.is_some_and(Component::uses_guest_proxy));
        self
    }
}

impl Workload<'_> {
    /// Applies the rights, starts the process, waits until it is ready, and registers its webhooks. Retries with new
    /// ports if another program takes one of them.
    pub(crate) async fn start(&self, cluster: &RunningApiServer, ports: Ports) -> Result<RunningProgram> {
        let client = &cluster.client;
        let objects = Objects::new(client);
        objects.apply_all(&self.manifests.namespaces).await?;
        objects.apply_all(&self.manifests.objects).await?;
        rights::aggregated(client, &self.manifests.objects).await?;
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
        let mut chosen = Some(ports);
        let (process, ports) = ports::retry_if_taken(async || {
            let ports = if let Some(ports) = chosen.take() {
                ports
            } else {
                let ports = Ports::free()?;
                self.have_conversions_called(cluster, ports).await?;
                ports
            };
            Ok((self.started(cluster, deployment, &account, ports, proxy_port).await?, ports))
        })
        .await?;
        self.have_webhooks_called(cluster, ports).await?;
        Ok(RunningProgram { process, guest_proxy, ports })
    }

    /// Applies the CRDs whose objects this program converts. Each CRD gets the URL of the program's webhook server.
    pub(crate) async fn have_conversions_called(
        &self,
        cluster: &RunningApiServer,
        ports: Ports,
    ) -> Result<()> {
        let endpoint = cluster.endpoint(ports.webhooks, self.recognizes_api_server);
        Ok(Objects::new(&cluster.client).apply_all(&endpoint.reached(self.converted)).await?)
    }

    async fn have_webhooks_called(&self, cluster: &RunningApiServer, ports: Ports) -> Result<()> {
        let endpoint = cluster.endpoint(ports.webhooks, self.recognizes_api_server);
        Ok(Objects::new(&cluster.client).apply_all(&endpoint.reached(&self.manifests.webhooks)).await?)
    }

    async fn started(
        &self,
        cluster: &RunningApiServer,
        deployment: &ProgramDeployment,
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

/// Returns the memory limit for a program's process, in MiB, or `None` for an unknown program.
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
