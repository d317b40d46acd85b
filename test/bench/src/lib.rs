//! Benchmarks and fault tests for the VM layer, on a fresh control plane and a fresh simulated vCenter.
//!
//! Each program in this package is one command: it starts the control plane, the simulator and the VM operator (the
//! same executable, called `vmop`), and cleans up however it ends. It prints one JSON document.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api_writes;
mod average;
mod calls;
pub mod cluster_faults;
pub mod entry;
pub mod faults;
pub mod figures;
mod floor;
mod idle;
pub mod memory;
mod profile;
mod proxy;
pub mod scale;
mod testbed;
mod vm_watch;
mod vms;

use support::process;
