//! The power state of a VM: desired state, power operations through vCenter or the guest, and restarts.

pub mod conditions;
pub mod guest_requests;
pub mod operation;
pub mod state;
