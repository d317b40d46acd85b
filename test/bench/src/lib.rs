//! What the VM layer costs and what it survives, measured on a fresh control plane and a fresh simulated vCenter.
//!
//! Each program of this package is one command: it starts the control plane, the simulator and the VM operator
//! (itself, called `vmop`), and leaves nothing behind, however it ends. It prints one JSON document.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod api_writes;
pub mod average;
pub mod calls;
pub mod entry;
pub mod faults;
pub mod figures;
pub mod floor;
pub mod idle;
pub mod memory;
pub use support::process;
pub mod profile;
pub mod proxy;
pub mod scale;
pub mod testbed;
pub mod vm_watch;
pub mod vms;
