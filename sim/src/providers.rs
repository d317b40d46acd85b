//! What a control plane on vSphere has beside the VM operator: networks, interfaces, storage.

use kube::Client;

use crate::addresses::Subnet;
use crate::network::{Interfaces, Network, Networks};
use crate::storage::Storage;
use crate::vcsim::VcenterEndpoint;
use crate::vcsim::control::ControlApi;

/// The site's providers at work for one control plane; dropping them ends them.
#[derive(Debug)]
pub struct Providers {
    _network: Network,
    _interfaces: Interfaces,
    _storage: Storage,
}

impl Providers {
    /// Starts serving the control plane behind `client`.
    pub fn serving(
        client: &Client,
        subnet: &Subnet,
        vcenter: &VcenterEndpoint,
        control: &ControlApi,
    ) -> Self {
        Self {
            _network: Network::serving(client.clone(), subnet.clone()),
            _interfaces: Interfaces::serving(client.clone(), subnet.clone(), Networks::of(vcenter)),
            _storage: Storage::serving(client.clone(), control.clone()),
        }
    }
}
