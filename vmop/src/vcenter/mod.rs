//! The one vCenter of this process: how it is reached, and everything it is asked.
//!
//! Reconciles ask for the [`VCenter`] and get it, or the [`Problem`] that keeps them waiting. Connecting,
//! reconnecting after a change of the configuration, and waiting out a vCenter that does not answer
//! happen here, once, whatever the number of objects.

mod connect;
mod connection;
mod devices;
pub mod endpoints;
pub mod guest_network;
mod lookup;
pub mod mark;
mod memo;
mod module_members;
mod placement;
mod problem;
mod provider;
mod realized_policy;
pub mod settings;
mod settings_watch;
mod stack_id;
pub mod storage;
mod unavailable;

/// The longest name that vCenter gives an object.
pub const LONGEST_NAME: usize = 80;

/// Returns true if an object of vCenter can have the name.
pub fn is_vcenter_name(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().count() <= LONGEST_NAME
}

pub use connect::{Program, keep_connected};
pub use connection::{LibraryProblem, VCenter};
pub use guest_network::GuestNetwork;
pub use module_members::MEMBERSHIP;
pub use placement::Placement;
pub use problem::Problem;
pub use provider::{ConnectionState, Provider};
pub use realized_policy::RealizedPolicy;
pub use stack_id::drawn_stack_id;
pub use unavailable::describe_unavailable;
