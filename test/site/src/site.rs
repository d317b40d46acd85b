//! The site as a whole.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use plane::stack::Stack;
use plane::tools::Tools;

use crate::Error;
use crate::addresses::Subnet;
use crate::door::Door;
use crate::guest::{Guests, Options, Programs};
use crate::network::Network;
use crate::simulator::Simulator;
use crate::vcenter::VCenter;

/// A running site.
pub struct Site {
    simulator: Simulator,
    guests: Guests,
    subnet: Subnet,
    network: Mutex<Option<Network>>,
}

impl Site {
    /// Starts the simulated vCenter and the agent that boots its VMs.
    pub async fn start(stack: &Arc<Stack>, tools: &Tools) -> Result<Self, Error> {
        let subnet = Subnet::claim()?;
        let simulator = Simulator::start(stack, tools).await?;
        let vcenter = simulator.vcenter();
        let token = vcenter.door_token().map_err(crate::vcenter::Error::Io)?;
        let door = Door::new(&vcenter.door, &token);
        let guests = Guests::start(Options::new(door, subnet.clone(), Programs::from(tools), stack.clone()));
        Ok(Self { simulator, guests, subnet, network: Mutex::default() })
    }

    /// Serves the control plane behind `client` as its network provider.
    pub fn serve_network(&self, client: Client) {
        *self.network.lock() = Some(Network::serving(client, self.subnet.clone()));
    }

    /// Leaves the control plane alone, before it goes.
    pub fn leave_network(&self) {
        *self.network.lock() = None;
    }

    /// What an admin knows of the simulated vCenter.
    pub fn vcenter(&self) -> &VCenter {
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
        self.simulator.ended().await
    }

    /// Stops everything.
    pub async fn stop(self) {
        self.guests.stop().await;
        self.simulator.stop().await;
    }
}
