//! A control plane and a simulated vCenter, and the VM operator between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use api::names::VMOP_NAMESPACE;
use api::vmop::ProviderConfiguration;
use kit::objects::Objects;
use kube::Client;
use layercake::site::manifests::class_binding;
use plane::tools::{self, Tools};
use plane::{Guard, Options, Plane, Program, Running, StackIdentity};
use serde_json::{Value, json};
use sim::NodeRuntime;
use sim::Simulator;
use sim::VcenterEndpoint;
use sim::control::ControlApi;

use crate::process;

/// The namespace of the VMs.
pub const NAMESPACE: &str = "bench";
/// The class of the VMs.
pub const CLASS: &str = "best-effort-small";
/// The flag that lets measurements read vmop's metrics without a token.
const OPEN_METRICS: &str = "--insecure-diagnostics";

/// The wire protocol that the VM operator and the floor use with vCenter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WireFlag {
    /// JSON over HTTP, vCenter 8.0 U1 and later.
    #[default]
    Vijson,
    /// SOAP, every vCenter.
    Soap,
}

impl WireFlag {
    /// Returns the name in flags and in the provider configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vijson => "vijson",
            Self::Soap => "soap",
        }
    }
}

/// The way in which the API server uses the VM operator's webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookCalls {
    /// Webhooks are called, as in an installation.
    Called,
    /// Webhooks aren't called, so VMs can be written while the VM operator is stopped.
    Uncalled,
}

/// A running control plane and vCenter. Cleans up when it is dropped.
pub struct Testbed {
    guard: Option<Guard>,
    plane: Plane,
    simulator: Simulator,
    control: ControlApi,
    vmop: PathBuf,
}

impl Testbed {
    /// Starts an API server with our kinds, and a vCenter. `site` contains further simulator arguments.
    pub async fn start(site: &[String]) -> Result<Self> {
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        let tools = find_tools().await?;
        let stack = Arc::new(StackIdentity::ephemeral()?);
        let guard = Guard::start(&exe, &stack)?;
        let (plane, simulator) = tokio::try_join!(
            async {
                Plane::bare(Options {
                    stack: stack.clone(),
                    tools: tools.clone(),
                    definitions: sim::tools::definitions()?,
                    guest_proxy: None,
                })
                .await
                .map_err(anyhow::Error::from)
            },
            async {
                Simulator::with(&stack, &tools, &NodeRuntime::default(), site)
                    .await
                    .map_err(anyhow::Error::from)
            },
        )?;
        let vcenter = simulator.vcenter();
        let control = ControlApi::new(&vcenter.control, &vcenter.control_token()?);
        let testbed = Self { guard: Some(guard), plane, simulator, control, vmop: exe };
        testbed.bind_namespace().await?;
        Ok(testbed)
    }

    /// Runs this VM operator executable, if one is given, instead of the one in this program.
    pub fn with_vmop(mut self, executable: Option<&Path>) -> Result<Self> {
        if let Some(executable) = executable {
            let found = executable.canonicalize();
            self.vmop = found.with_context(|| format!("--vmop {}", executable.display()))?;
        }
        Ok(self)
    }

    /// Binds the namespace to its folder, pool and class.
    async fn bind_namespace(&self) -> Result<()> {
        let vcenter = self.vcenter();
        let annotations = json!({
            "vmware-system-resource-pool": vcenter.resource_pool,
            "vmware-system-vm-folder": vcenter.folder,
        });
        self.apply(&namespace_object(NAMESPACE, &annotations)).await?;
        self.apply(&namespace_object(VMOP_NAMESPACE, &json!({}))).await?;
        self.apply(&class_binding(CLASS, NAMESPACE)).await
    }

    /// Writes the provider configuration, starts the VM operator and waits until it is ready.
    pub async fn start_vmop(
        &self,
        wire: WireFlag,
        webhooks: WebhookCalls,
        arguments: &[String],
    ) -> Result<Running> {
        self.configure(wire).await?;
        let program = match webhooks {
            WebhookCalls::Called => Program::new("vmop", &self.vmop),
            WebhookCalls::Uncalled => Program::new("vmop", &self.vmop).without_webhooks(),
        };
        let program = arguments.iter().fold(program.arg(OPEN_METRICS), Program::arg);
        self.plane.run(program).await.context("cannot start vmop")
    }

    /// Starts a second VM operator without leader election. It uses the configuration that [`Self::start_vmop`]
    /// writes.
    pub async fn start_second_vmop(&self, arguments: &[String]) -> Result<Running> {
        let program = Program::new("vmop", &self.vmop).replica(1).arg("--leader-elect=false");
        let program = arguments.iter().fold(program, Program::arg);
        self.plane.run(program).await.context("cannot start a second vmop")
    }

    async fn configure(&self, wire: WireFlag) -> Result<()> {
        let vcenter = self.vcenter();
        let configuration = ProviderConfiguration {
            stack_id: "bench".to_owned(),
            wire: wire.name().to_owned(),
            ..vcenter.provider()
        };
        self.apply(&vcenter.credentials(VMOP_NAMESPACE)?).await?;
        self.apply(&configuration.config_map(VMOP_NAMESPACE)).await?;
        Ok(())
    }

    pub async fn apply(&self, object: &Value) -> Result<()> {
        Ok(Objects::new(&self.client()).apply(object).await.map(drop)?)
    }

    /// Returns a client with all permissions.
    pub fn client(&self) -> Client {
        self.plane.client()
    }

    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Returns the simulated vCenter's endpoint and credentials.
    pub fn vcenter(&self) -> &VcenterEndpoint {
        self.simulator.vcenter()
    }

    pub fn control(&self) -> &ControlApi {
        &self.control
    }

    /// Returns the CPU time that the API server, etcd, vCenter and this program have used so far.
    pub fn cpu(&self) -> BTreeMap<String, Duration> {
        let parts = self.plane.parts().filter_map(|part| Some((part.name().to_owned(), part.pid()?)));
        let others = [("vcsim".to_owned(), self.simulator.pid()), ("bench".to_owned(), std::process::id())];
        parts.chain(others).map(|(name, pid)| (name, process::cpu(pid))).collect()
    }

    /// Returns a testbed process's log.
    pub fn log(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.plane.stack().folder().join("logs").join(format!("{name}.log"))).ok()
    }

    /// Stops everything and waits until all processes and files are gone.
    pub async fn stop(mut self) -> Result<()> {
        self.plane.stop().await;
        self.simulator.stop().await;
        if let Some(guard) = self.guard.take() {
            tokio::task::spawn_blocking(move || guard.finish()).await??;
        }
        Ok(())
    }
}

pub fn namespace_object(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations},
    })
}

/// Finds or builds the programs that a testbed runs.
pub async fn find_tools() -> Result<Tools> {
    let wanted = tools::Options { further: sim::tools::programs(), ..tools::Options::default() };
    Ok(tokio::task::spawn_blocking(move || tools::ensure(&wanted, tools::progress().as_ref())).await??)
}
