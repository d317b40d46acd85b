//! A simulated vSphere site on this machine, and its site file.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use gcm::sync::authentication::COPY_SCRIPT;
use plane::StackIdentity;
use plane::tools::Tools;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::guest::Registry;
use sim::{BootImage, NodeRuntime, SiteSimulation, VcenterEndpoint, addresses};
use vsphere::{Config, ShownCertificate};

use crate::args::{NodeKind, RegistryAccess, SimulatedVms, SiteDiscover, SiteNetworkProvider};
use crate::files::read_password;
use crate::site;

/// The prefix length of the site's networks.
const PREFIX: u8 = 16;

/// The static addresses that users give to VMs, for example in the manifests of examples/virtual-machines.
const STATIC_ADDRESSES: &str = "10.251.0.0/24";

/// Starts a simulated site. `registry` is the access that simulated nodes have to container registries.
///
/// # Errors
/// Returns an error if a process doesn't start.
pub async fn start(
    stack: &Arc<StackIdentity>,
    tools: &Tools,
    nodes: NodeRuntime,
    registry: RegistryAccess,
) -> Result<SiteSimulation> {
    let registry = Registry::new(registry == RegistryAccess::Reachable);
    Ok(SiteSimulation::start(stack, tools, nodes, registry, vec![COPY_SCRIPT]).await?)
}

/// The data from which the site file of a running simulated site is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimulatedSite {
    pub vcenter: VcenterEndpoint,
    /// The control plane address range, in the format of `--endpoints`.
    endpoints: String,
    /// The second octet of the site's addresses.
    number: u8,
    /// True if nodes are QEMU machines.
    pub machines: bool,
}

/// A namespace in a site file.
pub struct SimulatedNamespace {
    pub name: String,
    /// The VM classes that the namespace can use.
    pub classes: Vec<String>,
}

impl SimulatedSite {
    pub fn of(site: &SiteSimulation) -> Self {
        Self {
            vcenter: site.vcenter().clone(),
            endpoints: site.claimed_addresses(),
            number: site.subnet().number(),
            machines: site.hypervisor().is_some(),
        }
    }

    /// Returns the objects that `site discover` finds for the simulated vCenter and its default objects, with port groups.
    ///
    /// # Errors
    /// Returns an error if the simulated vCenter doesn't respond.
    pub async fn objects(&self, namespace: Option<SimulatedNamespace>) -> Result<Vec<Value>> {
        let vcenter = &self.vcenter;
        let (host, port) = site::address(&vcenter.authority)?;
        let mut config = Config::new(host, vcenter.username.clone(), read_password(&vcenter.password_file)?);
        config.port = port;
        let shown = ShownCertificate::of(&config).await?;
        let (namespace, vm_classes) = namespace.map(|one| (one.name, one.classes)).unzip();
        let discover = SiteDiscover {
            vcenter: vcenter.authority.clone(),
            user: vcenter.username.clone(),
            password_file: vcenter.password_file.clone(),
            thumbprint: Some(shown.thumbprint.to_string()),
            datacenter: Some(vcenter.datacenter.clone()),
            pool: Some(vcenter.resource_pool.clone()),
            folder: Some(vcenter.folder.clone()),
            datastore: Some(vcenter.datastore.clone()),
            network_provider: SiteNetworkProvider::PortGroups,
            network: Some(vcenter.network.clone()),
            node_addresses: self.node_addresses().collect(),
            endpoints: Some(self.endpoints.clone()),
            prefix: Some(PREFIX),
            gateway: Some(Ipv4Addr::new(self.first_octet(), self.number, 0, 1)),
            library: Some(vcenter.library.clone()),
            namespace,
            storage_policy: None,
            vm_classes: vm_classes.unwrap_or_default(),
            roles_for: None,
        };
        // The user didn't make these choices, so skip the explanation.
        site::find(&discover).await.map(|(objects, _)| objects)
    }

    /// Returns the first octet of the control plane addresses.
    fn first_octet(&self) -> u8 {
        if self.shares_network() { 10 } else { 127 }
    }

    /// Returns true if nodes and control planes have addresses in the same network.
    fn shares_network(&self) -> bool {
        self.machines || addresses::are_served_as_reported()
    }

    /// Returns the address ranges of guests: those of nodes, without the control plane addresses, and [`STATIC_ADDRESSES`].
    fn node_addresses(&self) -> impl Iterator<Item = ipnet::Ipv4Net> {
        let parts: &[(u8, u8)] = if self.shares_network() {
            &[(0, 17), (128, 18), (192, 19), (224, 20), (240, 21), (248, 23)]
        } else {
            &[(0, 16)]
        };
        let number = self.number;
        let nodes = parts.iter().filter_map(move |(third, prefix)| {
            ipnet::Ipv4Net::new(Ipv4Addr::new(10, number, *third, 0), *prefix).ok()
        });
        nodes.chain(STATIC_ADDRESSES.parse::<ipnet::Ipv4Net>())
    }
}

/// Returns the contents of a simulated site's VMs.
///
/// # Errors
/// Returns an error if the flags contradict each other, or an image can't be read.
pub fn nodes(vms: &SimulatedVms) -> Result<NodeRuntime> {
    if vms.nodes == NodeKind::Simulated {
        ensure!(vms.images.is_empty(), "--image requires --nodes qemu: simulated nodes do not boot an image");
        return Ok(NodeRuntime::Simulated(vms.releases.clone()));
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
    Ok(NodeRuntime::Qemu(images))
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
