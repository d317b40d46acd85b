//! The site as a whole.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use plane::stack::Stack;
use plane::tools::Tools;

use crate::Error;
use crate::addresses::Subnet;
use crate::guest::{Guests, Options, Programs};
use crate::providers::{Providers, SiteNetworks};
use crate::vcsim::control::ControlApi;
use crate::vcsim::{Simulator, VcenterEndpoint};

/// A running site.
pub struct Site {
    simulator: Simulator,
    guests: Guests,
    subnet: Subnet,
    control: ControlApi,
    providers: Mutex<Option<Providers>>,
}

impl Site {
    /// Starts the simulated vCenter and the agent that boots its VMs.
    pub async fn start(stack: &Arc<Stack>, tools: &Tools) -> Result<Self, Error> {
        let subnet = Subnet::claim()?;
        let simulator = Simulator::start(stack, tools).await?;
        let vcenter = simulator.vcenter();
        let token = vcenter.control_token().map_err(crate::vcsim::Error::Io)?;
        let control = ControlApi::new(&vcenter.control, &token);
        let guests = Guests::start(Options::new(
            control.clone(),
            subnet.clone(),
            Programs::from(tools),
            stack.clone(),
        ));
        Ok(Self { simulator, guests, subnet, control, providers: Mutex::default() })
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
        self.simulator.stop().await;
    }
}
