//! The power state of a VM: what is wanted, how vCenter or the guest brings the VM there, and restarts.

pub mod conditions;
pub mod guest_requests;
pub mod operation;
pub mod state;
