//! The providers that complement the VM operator on a vSphere control plane: networks, interfaces and storage.

use kube::Client;

use crate::addresses::Subnet;
use crate::network::{Interfaces, Networks, RunningNetworkProvider};
use crate::storage::RunningStorageProvider;
use crate::vcsim::VcenterEndpoint;
use crate::vcsim::control::ControlApi;

/// The network technology of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteNetworks {
    /// NSX: VirtualNetworks are realized, and LoadBalancer Services get addresses.
    Nsx,
    /// Port groups only: VirtualNetworks stay unrealized, and LoadBalancer Services don't get addresses.
    PortGroups,
}

/// The running providers for one control plane. They stop on drop.
#[derive(Debug)]
pub struct Providers {
    _network: Option<RunningNetworkProvider>,
    _interfaces: Interfaces,
    _storage: RunningStorageProvider,
}

impl Providers {
    /// Starts the providers for the control plane behind `client`.
    pub fn serving(
        client: &Client,
        networks: SiteNetworks,
        subnet: &Subnet,
        vcenter: &VcenterEndpoint,
        control: &ControlApi,
    ) -> Self {
        Self {
            _network: (networks == SiteNetworks::Nsx)
                .then(|| RunningNetworkProvider::serving(client.clone(), subnet.clone())),
            _interfaces: Interfaces::serving(client.clone(), subnet.clone(), Networks::of(vcenter)),
            _storage: RunningStorageProvider::serving(client.clone(), control.clone()),
        }
    }
}
