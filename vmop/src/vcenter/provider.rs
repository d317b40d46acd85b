//! Access to the vCenter connection and its state.

use std::sync::Arc;

use tokio::sync::watch;

use crate::vcenter::connection::VCenter;
use crate::vcenter::guest_network::GuestNetwork;
use crate::vcenter::problem::Problem;

/// The state of the vCenter connection.
#[derive(Clone)]
pub enum ConnectionState {
    /// The configuration isn't read, or the connection isn't established yet.
    Starting,
    /// The connection can't be established.
    Broken(Problem),
    Connected(Arc<VCenter>),
}

/// Gives access to the vCenter connection.
pub struct Provider {
    pub(super) state: watch::Sender<ConnectionState>,
    /// The network settings for all guests, or `None` until their ConfigMap was read.
    pub(super) guest_network: watch::Sender<Option<Arc<GuestNetwork>>>,
    /// The value of the configuration's annotation [`LIBRARIES_CHANGED`](super::settings::LIBRARIES_CHANGED).
    libraries_changed: watch::Sender<Option<String>>,
}

impl Provider {
    /// Creates a provider that [`super::keep_connected`] connects.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(ConnectionState::Starting),
            guest_network: watch::Sender::new(None),
            libraries_changed: watch::Sender::new(None),
        })
    }

    /// Creates a provider that is connected to this vCenter.
    #[cfg(test)]
    pub fn to(vcenter: &Arc<VCenter>) -> Arc<Self> {
        let provider = Self::new();
        provider.state.send_replace(ConnectionState::Connected(Arc::clone(vcenter)));
        provider
    }

    /// Creates a provider with a connection problem.
    #[cfg(test)]
    pub fn broken(problem: Problem) -> Arc<Self> {
        let provider = Self::new();
        provider.set_broken(problem);
        provider
    }

    /// Returns the connection, or why it isn't established.
    pub fn vcenter(&self) -> Result<Arc<VCenter>, Problem> {
        match &*self.state.borrow() {
            ConnectionState::Starting => Err(Problem::transient("The provider configuration is being read")),
            ConnectionState::Broken(problem) => Err(problem.clone()),
            ConnectionState::Connected(vcenter) => Ok(Arc::clone(vcenter)),
        }
    }

    /// Returns the VM from the inventory, or `vm` if the inventory doesn't contain the VM.
    pub fn latest(&self, vm: Arc<vsphere::Vm>) -> Arc<vsphere::Vm> {
        let now = self.vcenter().ok().and_then(|vcenter| vcenter.inventory.vm(&vm.moref).present());
        now.unwrap_or(vm)
    }

    /// Returns the network settings for all guests. They are known before the connection is established.
    pub fn guest_network(&self) -> Arc<GuestNetwork> {
        self.guest_network.borrow().clone().unwrap_or_default()
    }

    /// Subscribes to state changes.
    pub fn changes(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Subscribes to the administrators' notifications that a content library has changed.
    pub fn library_changes(&self) -> watch::Receiver<Option<String>> {
        self.libraries_changed.subscribe()
    }

    /// Sets the annotation value. Subscribers are notified only if it changed.
    pub(super) fn set_libraries_changed(&self, at: Option<&String>) {
        self.libraries_changed.send_if_modified(|old| {
            let changed = old.as_ref() != at;
            *old = at.cloned();
            changed
        });
    }

    /// Sets the state to `Broken`. Subscribers are notified only if the problem changed.
    pub(super) fn set_broken(&self, problem: Problem) {
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
