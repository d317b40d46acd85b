//! A complete stack on one machine: tools, control plane, simulated site and the controllers of Layercake.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use api::gcm::TanzuKubernetesRelease;
use api::names::VMOP_NAMESPACE;
use api::vmop::ProviderConfiguration;
use clap::ValueEnum as _;
use components::render::{Networks, arguments_of_site};
use gcm::sync::authentication::COPY_SCRIPT;
use kube::Client;
use kube::api::{Api, ListParams};
use plane::tools::{self, Tool, Tools};
use plane::{Guard, Plane, Program, Running};
use serde_json::json;
use sim::guest::Registry;
use sim::qemu::Hypervisor;
use sim::{BootImage, Nodes, Site, SiteNetworks, VcenterEndpoint};

use crate::apply::apply;
use crate::args::{NodeKind, RegistryAccess, SimulatedVms, SiteNetwork, Up, Wire};
use crate::session::Session;
use crate::wait::until;

/// The controllers of Layercake, in display order.
pub const PROGRAMS: [&str; 3] = ["gcm", "capw", "vmop"];

/// The VM operator flag that redirects probes from the addresses that simulated guests report to loopback addresses,
/// where the guests listen.
pub const SIMULATED_ADDRESSES: &str = "--probe-address-map=10.0.0.0/8=127.0.0.0/8";
/// The name of the pool for control plane addresses on sites without a load balancer, as in config/capw.
const ENDPOINT_POOL: &str = "control-planes";
const RELEASES: Duration = Duration::from_mins(1);

/// Options for starting a stack.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path to `layercake`, which is also the guard and all controllers.
    pub exe: PathBuf,
    /// Programs that the user has set, by their names in [`plane::tools::names`] and [`sim::tools::programs`].
    pub tools: BTreeMap<String, PathBuf>,
    /// The protocol between the VM operator and vCenter.
    pub wire: Wire,
    /// The network of the simulated site.
    pub network: SiteNetwork,
    /// The access that simulated nodes have to container registries.
    pub registry: RegistryAccess,
    /// The contents of the simulated site's VMs.
    pub nodes: Nodes,
    /// Additional arguments for the VM operator.
    pub vmop: Vec<String>,
    /// Additional arguments for gcm.
    pub gcm: Vec<String>,
}

impl Options {
    /// Returns the options for the command line of `up`.
    pub fn of(args: &Up) -> Result<Self> {
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(Self {
            exe,
            tools: args.tools.iter().cloned().collect(),
            wire: args.wire,
            network: args.network,
            registry: args.registry,
            nodes: up_nodes(args)?,
            vmop: Vec::new(),
            gcm: Vec::new(),
        })
    }
}

/// Returns the contents of the VMs, and checks that the network supports them.
fn up_nodes(args: &Up) -> Result<Nodes> {
    ensure!(
        args.nodes == NodeKind::Simulated || args.network == SiteNetwork::PortGroups,
        "--nodes qemu requires --network port-groups: NSX is simulated only for simulated nodes"
    );
    nodes(&args.vms())
}

/// Returns the contents of a simulated site's VMs.
///
/// # Errors
/// Returns an error if the flags contradict each other, or an image can't be read.
pub fn nodes(vms: &SimulatedVms) -> Result<Nodes> {
    if vms.nodes == NodeKind::Simulated {
        ensure!(vms.images.is_empty(), "--image requires --nodes qemu: simulated nodes do not boot an image");
        return Ok(Nodes::Simulated(vms.releases.clone()));
    }
    ensure!(
        vms.releases.is_empty(),
        "--release applies to simulated nodes only: with --nodes qemu, machines boot the images of --image"
    );
    let images = vms.images.iter().map(|image| BootImage::open(image)).collect::<Result<Vec<_>, _>>()?;
    ensure!(
        !images.is_empty(),
        "--nodes qemu requires --image: build one with `layercake image build --kubernetes v1.36 --output-folder images`, and pass its OVA"
    );
    Ok(Nodes::Qemu(images))
}

/// Returns the flags for a simulated site's VMs, for the background process that runs the site.
///
/// # Errors
/// Returns an error if an image doesn't exist.
pub fn vm_arguments(vms: &SimulatedVms) -> Result<Vec<String>> {
    let nodes = vms.nodes.to_possible_value().map(|nodes| format!("--nodes={}", nodes.get_name()));
    let mut arguments: Vec<_> = nodes.into_iter().collect();
    for image in &vms.images {
        let path =
            std::fs::canonicalize(image).with_context(|| format!("cannot find {}", image.display()))?;
        arguments.push(format!("--image={}", path.display()));
    }
    arguments.extend(vms.releases.iter().map(|release| format!("--release={}", release.version())));
    Ok(arguments)
}

/// A running stack. The guard process ends the stack when this process ends, even if this process is killed.
pub struct Stack {
    guard: Guard,
    plane: Plane,
    site: Site,
    programs: BTreeMap<&'static str, Running>,
}

impl Stack {
    /// Starts a stack and waits until clusters can be applied.
    pub async fn start(options: &Options) -> Result<Self> {
        let never = std::future::pending();
        Self::start_unless(options, never).await?.context("the start was cancelled")
    }

    /// Starts a stack like [`Self::start`]. If `given_up` resolves first, returns `None`. In this case, as after an
    /// error, the parts that have already started are cleaned up.
    pub async fn start_unless(options: &Options, given_up: impl Future<Output = ()>) -> Result<Option<Self>> {
        let mut given_up = std::pin::pin!(given_up);
        let tools = tokio::select! {
            tools = ensure_programs(options.tools.clone(), sim::tools::programs()) => tools?,
            () = &mut given_up => return Ok(None),
        };
        let stack = Arc::new(plane::Stack::ephemeral()?);
        let guard = Guard::start(&options.exe, &stack)?;
        let parts = tokio::select! {
            parts = start_components(options, &tools, &stack) => parts.map(Some),
            () = given_up => Ok(None),
        };
        match parts {
            Ok(Some((plane, site, programs))) => Ok(Some(Self { guard, plane, site, programs })),
            Ok(None) => {
                clean_up(guard, stack.folder()).await;
                Ok(None)
            }
            Err(error) => {
                clean_up(guard, stack.folder()).await;
                Err(error)
            }
        }
    }

    /// Returns the data that clients need to use the stack.
    pub fn session(&self) -> Session {
        Session {
            pid: std::process::id(),
            stack: self.plane.stack().id().to_owned(),
            folder: self.plane.stack().folder().to_owned(),
            kubeconfig: self.plane.kubeconfig().to_owned(),
            vcenter: self.site.vcenter().clone(),
            machines: self.site.hypervisor().map(Hypervisor::accelerator),
        }
    }

    /// Returns the programs that the stack runs.
    pub fn tools(&self) -> &Tools {
        self.plane.tools()
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Returns the stack's ID and folder, which all its processes share.
    pub fn marked(&self) -> &Arc<plane::Stack> {
        self.plane.stack()
    }

    /// Returns the controller with this name, or `None` if the name isn't in [`PROGRAMS`].
    pub fn program(&self, name: &str) -> Option<&Running> {
        self.programs.get(name)
    }

    /// Waits until the simulated vCenter exits, and returns the cause.
    pub async fn died(&self) -> anyhow::Error {
        anyhow!(self.site.died().await)
    }

    /// Stops all processes and deletes the stack's folder.
    pub async fn stop(self) {
        let Self { guard, plane, site, programs } = self;
        drop(programs);
        site.leave();
        plane.stop().await;
        site.stop().await;
        let folder = plane.stack().folder().to_owned();
        drop(plane);
        clean_up(guard, &folder).await;
    }
}

type Parts = (Plane, Site, BTreeMap<&'static str, Running>);

/// Starts the parts of a stack. Each part starts as soon as the parts that it requires are ready.
async fn start_components(options: &Options, tools: &Tools, stack: &Arc<plane::Stack>) -> Result<Parts> {
    let (plane, site) = tokio::try_join!(
        async {
            let definitions = sim::tools::definitions()?;
            let options = plane::Options {
                stack: stack.clone(),
                tools: tools.clone(),
                definitions,
                guest_proxy: Some(options.exe.clone()),
            };
            Plane::without_managers(options).await.map_err(anyhow::Error::from)
        },
        async {
            let registry = Registry::new(options.registry == RegistryAccess::Reachable);
            let site = Site::start(stack, tools, options.nodes.clone(), registry, vec![COPY_SCRIPT]).await;
            site.map_err(anyhow::Error::from)
        },
    )?;
    let client = plane.client();
    let (provided, networks) = match options.network {
        SiteNetwork::Nsx => (SiteNetworks::Nsx, Networks::Nsx),
        SiteNetwork::PortGroups => (SiteNetworks::PortGroups, Networks::PortGroups),
    };
    site.serve(&client, provided);
    let cluster_api = async {
        plane.run_managers().await?;
        apply_endpoint_pool(&client, &site).await
    };
    let is_simulated = matches!(options.nodes, Nodes::Simulated(_));
    let nodes_pull_images = is_simulated && options.registry == RegistryAccess::Reachable;
    let run = async |name: &'static str| {
        let arguments = arguments_of_site(name, networks, nodes_pull_images);
        let program = arguments.into_iter().fold(Program::new(name, &options.exe), Program::arg);
        let is_mapped = is_simulated && !sim::addresses::are_served_as_reported();
        let program = if name == "vmop" && is_mapped { program.arg(SIMULATED_ADDRESSES) } else { program };
        let further = match name {
            "vmop" => options.vmop.as_slice(),
            "gcm" => options.gcm.as_slice(),
            _ => &[],
        };
        let program = further.iter().fold(program, Program::arg);
        let running = plane.run(program).await;
        running.map(|running| (name, running)).with_context(|| format!("cannot start {name}"))
    };
    let programs = async {
        configure_vcenter(&client, site.vcenter(), stack.id(), options.wire).await?;
        let programs = futures::future::try_join_all(PROGRAMS.map(run)).await?;
        wait_for_releases(&client, &options.nodes).await?;
        Ok(programs)
    };
    let ((), programs) = tokio::try_join!(cluster_api, programs)?;
    let programs = programs.into_iter().collect();
    Ok((plane, site, programs))
}

/// Applies the pool for control plane addresses, as an administrator would.
async fn apply_endpoint_pool(client: &Client, site: &Site) -> Result<()> {
    let pool = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "GlobalInClusterIPPool",
        "metadata": {"name": ENDPOINT_POOL},
        "spec": {"addresses": [site.claimed_addresses()], "prefix": 16},
    });
    apply(client, &pool).await
}

/// Makes the guard kill the remaining processes, and waits for the guard. `folder` is the stack's folder in an error
/// message.
pub async fn clean_up(guard: Guard, folder: &std::path::Path) {
    match tokio::task::spawn_blocking(move || guard.finish()).await {
        Ok(Ok(())) => {}
        failed => {
            tracing::error!(?failed, folder = %folder.display(), "the guard process could not clean up");
        }
    }
}

/// Waits until gcm has checked the releases for the content library's images. Until then, gcm refuses clusters.
async fn wait_for_releases(client: &Client, nodes: &Nodes) -> Result<()> {
    let simulated = || sim::releases::NODE_IMAGES.iter().map(sim::releases::NodeImage::release);
    let wanted: std::collections::BTreeSet<_> = match nodes {
        Nodes::Simulated(further) => {
            simulated().chain(further.iter().map(|release| release.image().release())).collect()
        }
        Nodes::Qemu(images) => images.iter().map(|image| image.name.clone()).collect(),
    };
    let api = Api::<TanzuKubernetesRelease>::all(client.clone());
    until("Kubernetes releases made from the content library's images", RELEASES, async || {
        let releases = api.list(&ListParams::default()).await?.items;
        Ok(releases.len() >= wanted.len() && releases.iter().all(TanzuKubernetesRelease::is_checked))
    })
    .await
}

/// Finds or builds the control plane's programs, and the programs in `further`.
///
/// # Errors
/// Returns an error if a program can't be built.
pub async fn ensure_programs(given: BTreeMap<String, PathBuf>, further: Vec<&'static Tool>) -> Result<Tools> {
    let wanted = tools::Options { given, cache: None, further };
    let ensured =
        tokio::task::spawn_blocking(move || tools::ensure(&wanted, tools::progress().as_ref())).await?;
    Ok(ensured?)
}

/// Applies the VM operator's configuration, credentials and writable content source, as an administrator would.
async fn configure_vcenter(
    client: &Client,
    vcenter: &VcenterEndpoint,
    stack_id: &str,
    wire: Wire,
) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VMOP_NAMESPACE}});
    let configuration = ProviderConfiguration {
        stack_id: stack_id.to_owned(),
        wire: wire.name().to_owned(),
        // Namespaces without annotations for placement use this folder and resource pool.
        folder: vcenter.folder.clone(),
        resource_pool: vcenter.resource_pool.clone(),
        ..vcenter.provider()
    };
    let configuration = configuration.config_map(VMOP_NAMESPACE);
    let credentials = vcenter.credentials(VMOP_NAMESPACE)?;
    let [library, source] = vcenter.publish_source();
    for object in [&namespace, &credentials, &configuration, &library, &source] {
        apply(client, object).await?;
    }
    Ok(())
}
