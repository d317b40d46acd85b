//! The stack of `up`: a simulated site, and a management cluster for it whose folder isn't kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use api::names::VMOP_NAMESPACE;
use api::vmop::ProviderConfiguration;
use plane::tools::Tools;
use plane::{Running, StackIdentity as Processes};
use sim::qemu::Hypervisor;
use sim::{NodeRuntime, SiteNetworks, SiteSimulation};

use super::cluster::{Cluster, Programs};
use super::configure::{apply_site, wait_for_images};
use super::guarded::{GuardedStack, StackPrograms};
use super::serve::Served;
use super::simulated_site::{self, SimulatedSite, nodes};
use crate::args::{NodeKind, RegistryAccess, SiteNetwork, SiteNetworkProvider, Up, VimProtocol};
use crate::init::given::GivenSite;
use crate::init::site_file::SiteFile;
use crate::local::session::{StackSession, control};
use crate::state::daemon::Daemon;
use crate::state::folder::{AppliedPart, SiteSettings};

/// Options for starting a stack.
#[derive(Clone, Debug)]
pub struct Options {
    pub needs: StackPrograms,
    /// The protocol between the VM operator and vCenter.
    pub wire: VimProtocol,
    /// The network of the simulated site.
    pub network: SiteNetwork,
    /// The access that simulated nodes have to container registries.
    pub registry: RegistryAccess,
    /// The contents of the simulated site's VMs.
    pub nodes: NodeRuntime,
    /// Additional arguments for the VM operator.
    pub vmop: Vec<String>,
    /// Additional arguments for gcm.
    pub gcm: Vec<String>,
}

impl Options {
    /// Returns the options for the command line of `up`.
    ///
    /// # Errors
    /// Returns an error if the flags contradict each other, or an image can't be read.
    pub fn of(args: &Up) -> Result<Self> {
        ensure!(
            args.nodes == NodeKind::Simulated || args.network == SiteNetwork::PortGroups,
            "--nodes qemu requires --network port-groups: NSX is simulated only for simulated nodes"
        );
        let needs = StackPrograms::of_this_program(sim::tools::programs())?;
        Ok(Self {
            needs: StackPrograms { given: args.tools.iter().cloned().collect(), ..needs },
            wire: args.wire,
            network: args.network,
            registry: args.registry,
            nodes: nodes(&args.vms())?,
            vmop: Vec::new(),
            gcm: Vec::new(),
        })
    }

    fn settings(&self) -> SiteSettings {
        let simulated = matches!(self.nodes, NodeRuntime::Simulated(_));
        let provider = match self.network {
            SiteNetwork::Nsx => SiteNetworkProvider::Nsx,
            SiteNetwork::PortGroups => SiteNetworkProvider::PortGroups,
        };
        SiteSettings {
            network_provider: provider.key().to_owned(),
            nodes_pull_images: simulated && self.registry == RegistryAccess::Reachable,
            simulated,
            applied: AppliedPart::All,
            for_command: false,
            args: BTreeMap::new(),
        }
    }
}

/// A running stack. The guard process ends the stack when this process ends, even if this process is killed.
pub struct Stack {
    guarded: GuardedStack,
    parts: Parts,
}

struct Parts {
    cluster: Cluster,
    site: SiteSimulation,
    programs: Programs,
}

impl Stack {
    /// Starts a stack and waits until clusters can be applied.
    ///
    /// # Errors
    /// Returns an error if a program can't be built or doesn't start.
    pub async fn start(options: &Options) -> Result<Self> {
        let never = std::future::pending();
        Self::start_unless(options, never).await?.context("the start was cancelled")
    }

    /// Starts a stack like [`Self::start`]. If `given_up` resolves first, returns `None`. In this case, as after an
    /// error, the parts that have already started are cleaned up.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_unless(options: &Options, given_up: impl Future<Output = ()>) -> Result<Option<Self>> {
        let start = async |stack: &_, tools| Box::pin(start_parts(options, stack, tools)).await;
        let open = || Ok(Processes::ephemeral()?);
        let started = GuardedStack::start(&options.needs, open, start, given_up).await?;
        Ok(started.map(|(guarded, parts)| Self { guarded, parts }))
    }

    /// Returns the data that clients need to use the stack.
    pub fn session(&self) -> StackSession {
        let stack = self.guarded.stack();
        StackSession {
            pid: std::process::id(),
            stack: stack.id().to_owned(),
            folder: stack.folder().to_owned(),
            kubeconfig: self.parts.cluster.plane().kubeconfig().to_owned(),
            vcenter: self.site().vcenter().clone(),
            machines: self.site().hypervisor().map(Hypervisor::accelerator),
        }
    }

    /// Returns the programs that the stack runs.
    pub fn tools(&self) -> &Tools {
        self.parts.cluster.plane().tools()
    }

    pub fn site(&self) -> &SiteSimulation {
        &self.parts.site
    }

    /// Returns the stack's ID and folder, which all its processes share.
    pub fn marked(&self) -> &Arc<Processes> {
        self.guarded.stack()
    }

    /// Returns the controller with this name, or `None` if the name isn't in [`PROGRAMS`](super::cluster::PROGRAMS).
    pub fn program(&self, name: &str) -> Option<&Running> {
        self.parts.programs.get(name)
    }

    /// Waits until the simulated vCenter exits, and returns the cause.
    pub async fn died(&self) -> anyhow::Error {
        anyhow!(self.site().died().await)
    }

    /// Stops all processes and deletes the stack's folder.
    pub async fn stop(self) {
        let Self { guarded, parts: Parts { cluster, site, programs } } = self;
        drop(programs);
        site.leave();
        cluster.stop().await;
        site.stop().await;
        guarded.clean_up().await;
    }
}

impl Served for Stack {
    async fn run(&self, daemon: &Daemon) -> Result<()> {
        daemon.write(&self.session())?;
        Err(self.died().await)
    }

    async fn stop(self) {
        Self::stop(self).await;
    }
}

/// Starts the parts of a stack. Each part starts as soon as the parts that it requires are ready.
async fn start_parts(options: &Options, stack: &Arc<Processes>, tools: Tools) -> Result<Parts> {
    let site = async {
        let site = simulated_site::start(stack, &tools, options.nodes.clone(), options.registry).await?;
        let given = given_site(&site, stack.id(), options.wire).await?;
        Ok((site, given))
    };
    let exe = options.needs.exe.clone();
    let cluster = Cluster::start(exe, stack.clone(), tools.clone(), sim::tools::definitions()?);
    let (cluster, (site, given)) = tokio::try_join!(cluster, site)?;
    let client = cluster.plane().client();
    site.serve(
        &client,
        match options.network {
            SiteNetwork::Nsx => SiteNetworks::Nsx,
            SiteNetwork::PortGroups => SiteNetworks::PortGroups,
        },
    );
    let settings = options.settings();
    let further = |name: &str| match name {
        "vmop" => options.vmop.clone(),
        "gcm" => options.gcm.clone(),
        _ => Vec::new(),
    };
    let start = async || {
        // Reports count the VM operator's requests, and not those that wrote and checked the site file.
        control(site.vcenter())?.forget_requests().await?;
        cluster.run_programs(&settings, further, |_| ()).await
    };
    let configured = apply_site(&client, &given, start);
    let ((), programs) = tokio::try_join!(cluster.run_managers(&settings, |_| ()), configured)?;
    wait_for_images(&client, &given.file).await?;
    Ok(Parts { cluster, site, programs })
}

/// Returns the site file and the credentials of a simulated site.
async fn given_site(site: &SiteSimulation, stack_id: &str, wire: VimProtocol) -> Result<GivenSite> {
    let vcenter = site.vcenter();
    let mut objects = SimulatedSite::of(site).objects(None).await?;
    let configuration = SiteFile::new(objects.clone())?.configuration;
    let configuration = ProviderConfiguration {
        stack_id: stack_id.to_owned(),
        wire: wire.name().to_owned(),
        // Namespaces without annotations for placement use this folder and resource pool.
        folder: vcenter.folder.clone(),
        resource_pool: vcenter.resource_pool.clone(),
        // The stack has the network kinds of all providers, and VMs can use each of them.
        network_provider: String::new(),
        ..configuration
    };
    objects.retain(|object| object["kind"] != "ConfigMap");
    objects.insert(0, configuration.config_map(VMOP_NAMESPACE));
    objects.extend(vcenter.publish_source());
    Ok(GivenSite::new(SiteFile::new(objects)?, &vcenter.username, &vcenter.password()?))
}
