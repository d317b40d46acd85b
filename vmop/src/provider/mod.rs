//! The one vCenter of this process: how it is reached, and everything it is asked.
//!
//! Reconciles ask for the [`Site`] and get it, or the [`Problem`] that keeps them waiting. Connecting,
//! reconnecting after a change of the configuration, and waiting out a vCenter that does not answer
//! happen here, once, whatever the number of objects.

pub mod collect;
pub mod config;
mod connection;
pub mod golden;
mod guest_network;
mod hardware;
pub mod mark;
mod membership;
mod realm;
mod site;
pub mod storage;

use std::sync::Arc;

use tokio::sync::watch;

pub use connection::{Program, keep};
pub use guest_network::GuestNetwork;
pub use membership::MEMBERSHIP;
pub use realm::Realm;
pub use site::{Place, Site};

/// Why vCenter can't be used now: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{said}")]
pub struct Problem {
    said: String,
    passing: bool,
}

impl Problem {
    /// A problem that somebody should know of.
    pub fn new(said: impl Into<String>) -> Self {
        Self { said: said.into(), passing: false }
    }

    /// A problem that is over in a moment: nobody needs to be told.
    pub fn passing(said: impl Into<String>) -> Self {
        Self { said: said.into(), passing: true }
    }

    /// Whether it is over in a moment.
    pub fn is_passing(&self) -> bool {
        self.passing
    }

    /// A failure of the vCenter at this address.
    pub fn of(address: &str, error: &vsphere::Error) -> Self {
        Self::new(format!("vCenter {address}: {error}. {}", error.advice()))
    }
}

/// Whether there is a vCenter to work with.
#[derive(Clone)]
pub enum State {
    /// Nothing is known yet.
    Starting,
    /// There is none, and why.
    Broken(Problem),
    /// There is one.
    Connected(Arc<Site>),
}

/// The way to the vCenter.
pub struct Provider {
    state: watch::Sender<State>,
    /// `None` until it is known.
    guest_network: watch::Sender<Option<Arc<GuestNetwork>>>,
}

impl Provider {
    /// A way that leads nowhere until [`keep`] connects it.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: watch::Sender::new(State::Starting), guest_network: watch::Sender::new(None) })
    }

    /// A way to a vCenter that is connected already.
    #[cfg(test)]
    pub fn to(site: &Arc<Site>) -> Arc<Self> {
        let provider = Self::new();
        provider.state.send_replace(State::Connected(Arc::clone(site)));
        provider
    }

    /// The vCenter, or why there is none.
    pub fn site(&self) -> Result<Arc<Site>, Problem> {
        match &*self.state.borrow() {
            State::Starting => Err(Problem::passing("The provider configuration is being read")),
            State::Broken(problem) => Err(problem.clone()),
            State::Connected(site) => Ok(Arc::clone(site)),
        }
    }

    /// The machine as the inventory has it now, where it has it.
    pub fn latest(&self, machine: Arc<vsphere::Vm>) -> Arc<vsphere::Vm> {
        let now = self.site().ok().and_then(|site| site.inventory.vm(&machine.moref).present());
        now.unwrap_or(machine)
    }

    /// What all guests are told of the network. It is known before there is a site.
    pub fn guest_network(&self) -> Arc<GuestNetwork> {
        self.guest_network.borrow().clone().unwrap_or_default()
    }

    /// Tells of every change of the state.
    pub fn changes(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Tells of a new problem; the same again is no news.
    fn broken(&self, problem: Problem) {
        self.state.send_if_modified(|state| {
            if matches!(state, State::Broken(old) if *old == problem) {
                return false;
            }
            tracing::warn!(%problem, "no vCenter");
            *state = State::Broken(problem);
            true
        });
    }
}
