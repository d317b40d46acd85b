//! Stories about VirtualMachines that users write, and about related kinds.

mod identity;
mod networks;
pub mod operator_crash;
mod other_kinds;
mod page;
mod questions;
mod rules;
mod volumes;
