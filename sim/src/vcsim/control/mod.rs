//! A client for the simulated vCenter's control API: guest actions, out-of-band changes by an administrator, and fault injection.
//!
//! Only the simulator and tests use it, never the product.

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
pub use fault::{FaultKind, FaultRule};
pub use inventory::{
    InventoryDisk, InventoryModule, InventoryNode, InventorySnapshot, InventoryVm, OrphanedFiles,
};
pub use requests::{RecordedCall, RequestStatistics, Traffic};
pub use vms::{GuestReport, Hardware, NetworkAdapter, PowerAction, SimulatedVm, VmCopy, VmDisk, Vms};
