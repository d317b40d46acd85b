//! The way to the one vCenter, and whether it is connected.

use std::sync::Arc;

use tokio::sync::watch;

use crate::vcenter::connection::VCenter;
use crate::vcenter::guest_network::GuestNetwork;
use crate::vcenter::problem::Problem;

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
    pub(super) state: watch::Sender<ConnectionState>,
    /// `None` until it is known.
    pub(super) guest_network: watch::Sender<Option<Arc<GuestNetwork>>>,
    /// What the configuration says of changes in the content libraries.
    libraries_changed: watch::Sender<Option<String>>,
}

impl Provider {
    /// A way that leads nowhere until [`super::keep_connected`] connects it.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(ConnectionState::Starting),
            guest_network: watch::Sender::new(None),
            libraries_changed: watch::Sender::new(None),
        })
    }

    /// A way to a vCenter that is connected already.
    #[cfg(test)]
    pub fn to(vcenter: &Arc<VCenter>) -> Arc<Self> {
        let provider = Self::new();
        provider.state.send_replace(ConnectionState::Connected(Arc::clone(vcenter)));
        provider
    }

    /// A way that leads nowhere, for this reason.
    #[cfg(test)]
    pub fn broken(problem: Problem) -> Arc<Self> {
        let provider = Self::new();
        provider.set_broken(problem);
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

    /// The VM as the inventory has it now, where it has it.
    pub fn latest(&self, vm: Arc<vsphere::Vm>) -> Arc<vsphere::Vm> {
        let now = self.vcenter().ok().and_then(|vcenter| vcenter.inventory.vm(&vm.moref).present());
        now.unwrap_or(vm)
    }

    /// The network settings of all guests. It is known before there is a vcenter.
    pub fn guest_network(&self) -> Arc<GuestNetwork> {
        self.guest_network.borrow().clone().unwrap_or_default()
    }

    /// Shows every change of the state.
    pub fn changes(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Changes whenever an administrator says that a content library has changed.
    pub fn library_changes(&self) -> watch::Receiver<Option<String>> {
        self.libraries_changed.subscribe()
    }

    /// What the configuration says of changes in the content libraries; the same again is no news.
    pub(super) fn set_libraries_changed(&self, at: Option<&String>) {
        self.libraries_changed.send_if_modified(|old| {
            let changed = old.as_ref() != at;
            *old = at.cloned();
            changed
        });
    }

    /// There is no vCenter, for this reason; the same again is no news.
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
