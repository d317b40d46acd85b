//! The site as a whole.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use plane::stack::Stack;
use plane::tools::Tools;

use crate::Error;
use crate::addresses::Subnet;
use crate::guest::{Guests, Images, Options, Programs, Registry, Release};
use crate::providers::{Providers, SiteNetworks};
use crate::qemu::{self, Hypervisor};
use crate::vcsim::control::ControlApi;
use crate::vcsim::further_release::FurtherRelease;
use crate::vcsim::releases::{NODE_IMAGES, NodeImage, SHARED_IMAGE, Shape};
use crate::vcsim::{Nodes, Simulator, VcenterEndpoint};

/// A running site.
pub struct Site {
    simulator: Simulator,
    guests: Guests,
    subnet: Subnet,
    control: ControlApi,
    hypervisor: Option<Arc<Hypervisor>>,
    providers: Mutex<Option<Providers>>,
}

impl Site {
    /// Starts the simulated vCenter and the agent that boots its VMs, whose simulated nodes reach `registry`. Of the Pods there, those
    /// that run one of `scripts` with the shell of their node are processes of this host.
    pub async fn start(
        stack: &Arc<Stack>,
        tools: &Tools,
        nodes: Nodes,
        registry: Registry,
        scripts: Vec<&'static str>,
    ) -> Result<Self, Error> {
        let subnet = Subnet::claim()?;
        let name = matches!(nodes, Nodes::Qemu(_)).then(|| qemu::host_address(subnet.number()));
        let simulator = Simulator::start(stack, tools, &nodes, name).await?;
        let vcenter = simulator.vcenter();
        let token = vcenter.control_token().map_err(crate::vcsim::Error::Io)?;
        let control = ControlApi::new(&vcenter.control, &token);
        let (further, hypervisor) = match nodes {
            Nodes::Simulated(further) => (further, None),
            Nodes::Qemu(images) => {
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

    /// What runs the real machines, if nodes are such.
    pub fn hypervisor(&self) -> Option<&Hypervisor> {
        self.hypervisor.as_deref()
    }

    /// The range that the addresses of control planes are claimed from.
    pub fn claimed_addresses(&self) -> String {
        self.subnet.claimed_addresses(self.hypervisor.is_some())
    }

    /// Serves the control plane behind `client` as the provider of its networks and storage.
    pub fn serve(&self, client: &Client, networks: SiteNetworks) {
        *self.providers.lock() = Some(self.providers(client, networks));
    }

    /// Leaves the control plane alone, before it goes.
    pub fn leave(&self) {
        *self.providers.lock() = None;
    }

    /// The providers of one more control plane, for as long as they are kept.
    pub fn providers(&self, client: &Client, networks: SiteNetworks) -> Providers {
        Providers::serving(client, networks, &self.subnet, self.vcenter(), &self.control)
    }

    /// What an admin knows of the simulated vCenter.
    pub fn vcenter(&self) -> &VcenterEndpoint {
        self.simulator.vcenter()
    }

    /// The guests, for those who want to hold their boots or see why one failed.
    pub fn guests(&self) -> Guests {
        self.guests.clone()
    }

    /// The addresses of the site.
    pub fn subnet(&self) -> &Subnet {
        &self.subnet
    }

    /// Waits until the simulated vCenter has ended.
    pub async fn died(&self) -> Error {
        self.simulator.ended().await.into()
    }

    /// Stops everything.
    pub async fn stop(self) {
        self.guests.stop().await;
        if let Some(hypervisor) = &self.hypervisor {
            hypervisor.end().await;
        }
        self.simulator.stop().await;
    }
}

/// The release in an item of the site's libraries, if the item is a node image. An imported image of `layercake image build` has the
/// same content as the site's own image of that Kubernetes version. Only the part after the last period differs in their names.
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
