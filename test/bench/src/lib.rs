//! What the VM layer costs and what it survives, measured on a fresh control plane and a fresh simulated vCenter.
//!
//! Each program of this package is one command: it starts the control plane, the simulator and the VM operator
//! (itself, called `vmop`), and leaves nothing behind, however it ends. It prints one JSON document.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod calls;
pub mod entry;
pub mod faults;
pub mod floor;
pub mod machines;
pub mod memory;
pub mod process;
pub mod profile;
pub mod progress;
pub mod proxy;
pub mod rest;
pub mod scale;
pub mod world;
pub mod writes;

/// A count as the divisor of an average; no average is taken of nothing.
pub(crate) fn per(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX).max(1))
}
