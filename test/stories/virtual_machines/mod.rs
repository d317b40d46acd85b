//! VirtualMachines that users write, and the kinds beside them.

mod identity;
mod networks;
pub mod operator_crash;
mod other_kinds;
mod page;
mod questions;
mod rules;
mod volumes;
