//! The one vCenter of this process: how it is reached, and everything it is asked.
//!
//! Reconciles ask for the [`VCenter`] and get it, or the [`Problem`] that keeps them waiting. Connecting,
//! reconnecting after a change of the configuration, and waiting out a vCenter that does not answer
//! happen here, once, whatever the number of objects.

mod connect;
mod connection;
mod devices;
mod guest_network;
pub mod mark;
mod module_members;
mod realized_policy;
pub mod settings;
pub mod storage;

use std::sync::Arc;

use tokio::sync::watch;

pub use connect::{Program, keep_connected};
pub use connection::{Placement, VCenter};
pub use guest_network::GuestNetwork;
pub use module_members::MEMBERSHIP;
pub use realized_policy::RealizedPolicy;

/// Why vCenter can't be used now: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    message: String,
    transient: bool,
}

impl Problem {
    /// A problem that somebody should know of.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false }
    }

    /// A problem that is over in a moment: nobody needs to be told.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: true }
    }

    /// Whether it is over in a moment.
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// A failure of the vCenter at this address.
    pub fn of(address: &str, error: &vsphere::Error) -> Self {
        Self::new(format!("vCenter {address}: {error}. {}", error.advice()))
    }
}

/// Whether there is a vCenter to work with.
#[derive(Clone)]
pub enum ConnectionState {
    /// Nothing is known yet.
    Starting,
    /// There is none, and why.
    Broken(Problem),
    /// There is one.
    Connected(Arc<VCenter>),
}

/// The way to the vCenter.
pub struct Provider {
    state: watch::Sender<ConnectionState>,
    /// `None` until it is known.
    guest_network: watch::Sender<Option<Arc<GuestNetwork>>>,
}

impl Provider {
    /// A way that leads nowhere until [`keep_connected`] connects it.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(ConnectionState::Starting),
            guest_network: watch::Sender::new(None),
        })
    }

    /// A way to a vCenter that is connected already.
    #[cfg(test)]
    pub fn to(vcenter: &Arc<VCenter>) -> Arc<Self> {
        let provider = Self::new();
        provider.state.send_replace(ConnectionState::Connected(Arc::clone(vcenter)));
        provider
    }

    /// The vCenter, or why there is none.
    pub fn vcenter(&self) -> Result<Arc<VCenter>, Problem> {
        match &*self.state.borrow() {
            ConnectionState::Starting => Err(Problem::transient("The provider configuration is being read")),
            ConnectionState::Broken(problem) => Err(problem.clone()),
            ConnectionState::Connected(vcenter) => Ok(Arc::clone(vcenter)),
        }
    }

    /// The machine as the inventory has it now, where it has it.
    pub fn latest(&self, machine: Arc<vsphere::Vm>) -> Arc<vsphere::Vm> {
        let now = self.vcenter().ok().and_then(|vcenter| vcenter.inventory.vm(&machine.moref).present());
        now.unwrap_or(machine)
    }

    /// What all guests are told of the network. It is known before there is a vcenter.
    pub fn guest_network(&self) -> Arc<GuestNetwork> {
        self.guest_network.borrow().clone().unwrap_or_default()
    }

    /// Tells of every change of the state.
    pub fn changes(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Tells of a new problem; the same again is no news.
    fn broken(&self, problem: Problem) {
        self.state.send_if_modified(|state| {
            if matches!(state, ConnectionState::Broken(old) if *old == problem) {
                return false;
            }
            tracing::warn!(%problem, "no vCenter");
            *state = ConnectionState::Broken(problem);
            true
        });
    }
}
