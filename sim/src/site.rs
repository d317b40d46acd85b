//! Starts and stops all parts of a site: simulated vCenter, guests, hypervisor and providers.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use plane::stack::StackIdentity;
use plane::tools::Tools;

use crate::Error;
use crate::addresses::Subnet;
use crate::guest::{Guests, Images, Options, Programs, Registry, Release};
use crate::providers::{Providers, SiteNetworks};
use crate::qemu::{self, Hypervisor};
use crate::vcsim::control::ControlApi;
use crate::vcsim::further_release::FurtherRelease;
use crate::vcsim::releases::{NODE_IMAGES, NodeImage, SHARED_IMAGE, Shape};
use crate::vcsim::{NodeRuntime, Simulator, VcenterEndpoint};

/// A running simulated site. Call [`SiteSimulation::stop`] to end its processes.
pub struct SiteSimulation {
    simulator: Simulator,
    guests: Guests,
    subnet: Subnet,
    control: ControlApi,
    hypervisor: Option<Arc<Hypervisor>>,
    providers: Mutex<Option<Providers>>,
}

impl SiteSimulation {
    /// Starts the simulated vCenter and the agent that boots its VMs.
    ///
    /// Simulated nodes pull container images from `registry`. A Pod that runs one of `scripts` with its node's shell
    /// becomes a process on this host.
    pub async fn start(
        stack: &Arc<StackIdentity>,
        tools: &Tools,
        nodes: NodeRuntime,
        registry: Registry,
        scripts: Vec<&'static str>,
    ) -> Result<Self, Error> {
        let subnet = Subnet::claim()?;
        let name = matches!(nodes, NodeRuntime::Qemu(_)).then(|| qemu::host_address(subnet.number()));
        let simulator = Simulator::start(stack, tools, &nodes, name).await?;
        let vcenter = simulator.vcenter();
        let token = vcenter.control_token().map_err(crate::vcsim::Error::Io)?;
        let control = ControlApi::new(&vcenter.control, &token);
        let (further, hypervisor) = match nodes {
            NodeRuntime::Simulated(further) => (further, None),
            NodeRuntime::Qemu(images) => {
                let hypervisor = Hypervisor::prepare(stack, &control, subnet.number(), images).await?;
                hypervisor.relay(&vcenter.authority).await?;
                (Vec::new(), Some(Arc::new(hypervisor)))
            }
        };
        let images: Images = Arc::new(move |item| node_image(item, &further));
        let programs = Programs { scripts, ..Programs::from(tools) };
        let options = Options::new(control.clone(), subnet.clone(), programs, stack.clone());
        let guests = Guests::start(Options { hypervisor: hypervisor.clone(), images, registry, ..options });
        Ok(Self { simulator, guests, subnet, control, hypervisor, providers: Mutex::default() })
    }

    /// Returns the hypervisor if the nodes are real machines.
    pub fn hypervisor(&self) -> Option<&Hypervisor> {
        self.hypervisor.as_deref()
    }

    /// Returns the address range for control planes (`FIRST-LAST`), from which the IPAM provider assigns addresses.
    pub fn claimed_addresses(&self) -> String {
        self.subnet.claimed_addresses(self.hypervisor.is_some())
    }

    /// Starts the network and storage providers for the control plane behind `client`. Replaces earlier providers.
    pub fn serve(&self, client: &Client, networks: SiteNetworks) {
        *self.providers.lock() = Some(self.providers(client, networks));
    }

    /// Stops the providers that [`SiteSimulation::serve`] started. Call it before the control plane stops.
    pub fn leave(&self) {
        *self.providers.lock() = None;
    }

    /// Starts providers for an additional control plane. The providers stop when the returned value is dropped.
    pub fn providers(&self, client: &Client, networks: SiteNetworks) -> Providers {
        Providers::serving(client, networks, &self.subnet, self.vcenter(), &self.control)
    }

    /// Returns the address, credentials and inventory ids for the simulated vCenter.
    pub fn vcenter(&self) -> &VcenterEndpoint {
        self.simulator.vcenter()
    }

    /// Returns the guests, so that a caller can hold boots or read boot failures.
    pub fn guests(&self) -> Guests {
        self.guests.clone()
    }

    /// Returns the address slice that this site claimed.
    pub fn subnet(&self) -> &Subnet {
        &self.subnet
    }

    /// Waits until the simulated vCenter exits, and returns the cause as an error.
    pub async fn died(&self) -> Error {
        self.simulator.ended().await.into()
    }

    /// Stops the guests, the hypervisor's network and the simulated vCenter, in this order.
    pub async fn stop(self) {
        self.guests.stop().await;
        if let Some(hypervisor) = &self.hypervisor {
            hypervisor.end().await;
        }
        self.simulator.stop().await;
    }
}

/// Returns the release of a library item, or `None` if the item isn't a node image.
///
/// An image from `layercake image build` that was imported has the same content as the site's own image for that
/// Kubernetes version. The two item names differ only after the last period.
fn node_image(item: &str, further: &[FurtherRelease]) -> Option<Release> {
    let further = further.iter().map(FurtherRelease::image);
    let mut all = NODE_IMAGES.iter().copied().chain([SHARED_IMAGE]).chain(further);
    let is_imported = |image: &NodeImage<'_>| {
        let name = |item: &str| item.rsplit_once('.').map(|(name, _)| name.to_owned());
        matches!(image.shape, Shape::Layercake) && name(image.item) == name(item)
    };
    let image = all.find(|image| image.item == item || is_imported(image))?;
    Some(Release {
        kubernetes_version: image.kubernetes.to_owned(),
        container_images: Arc::new(image.container_images()),
        os: image.os.facts().0,
    })
}
