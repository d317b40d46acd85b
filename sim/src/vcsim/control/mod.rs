//! The control API of the simulated vCenter: what a guest, an operator behind our back, or a fault does to it.
//!
//! Nothing of the product uses it; stories and the guest agent do.

mod client;
mod disks;
mod error;
mod fault;
mod inventory;
mod outages;
mod requests;
mod vms;

pub use client::ControlApi;
pub use disks::FirstClassDisk;
pub use error::Error;
pub use fault::{Fault, FaultKind};
pub use inventory::{Inventory, InventoryDisk, InventoryModule, InventoryNode, InventoryVm, OrphanedFiles};
pub use requests::{Call, Requests, Traffic};
pub use vms::{GuestReport, Hardware, Nic, PowerAction, Vm, VmCopy, VmDisk, Vms};
