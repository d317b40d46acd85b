//! The connection to the process's vCenter, and its calls and caches.
//!
//! Reconciles ask for the [`VCenter`] and get it, or the [`Problem`] that they wait for. Connecting, reconnecting after a
//! configuration change, and retrying while vCenter doesn't respond happen here, once for all objects.

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

/// The maximum length of an object name in vCenter, in characters.
pub const LONGEST_NAME: usize = 80;

/// Returns true if vCenter accepts the name for an object: it isn't blank and has at most [`LONGEST_NAME`] characters.
pub fn is_vcenter_name(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().count() <= LONGEST_NAME
}

pub use connect::{ConnectionParts, keep_connected};
pub use connection::{LibraryProblem, VCenter};
pub use guest_network::GuestNetwork;
pub use module_members::MEMBERSHIP;
pub use placement::Placement;
pub use problem::Problem;
pub use provider::{ConnectionState, Provider};
pub use realized_policy::RealizedPolicy;
pub use stack_id::drawn_stack_id;
pub use unavailable::describe_unavailable;
