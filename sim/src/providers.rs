//! What a control plane on vSphere has beside the VM operator: networks, interfaces, storage.

use kube::Client;

use crate::addresses::Subnet;
use crate::network::{Interfaces, Network, Networks};
use crate::storage::Storage;
use crate::vcsim::VcenterEndpoint;
use crate::vcsim::control::ControlApi;

/// What a site has for networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteNetworks {
    /// NSX: VirtualNetworks are realised, and load balancers serve.
    Nsx,
    /// Port groups: nobody realises a VirtualNetwork or gives a load balancer its address.
    PortGroups,
}

/// The site's providers at work for one control plane; dropping them ends them.
#[derive(Debug)]
pub struct Providers {
    _network: Option<Network>,
    _interfaces: Interfaces,
    _storage: Storage,
}

impl Providers {
    /// Starts serving the control plane behind `client`.
    pub fn serving(
        client: &Client,
        networks: SiteNetworks,
        subnet: &Subnet,
        vcenter: &VcenterEndpoint,
        control: &ControlApi,
    ) -> Self {
        Self {
            _network: (networks == SiteNetworks::Nsx)
                .then(|| Network::serving(client.clone(), subnet.clone())),
            _interfaces: Interfaces::serving(client.clone(), subnet.clone(), Networks::of(vcenter)),
            _storage: Storage::serving(client.clone(), control.clone()),
        }
    }
}
