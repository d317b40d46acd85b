//! CPU, memory and virtual hardware of a VM, by its class.

pub mod class;
pub mod resize;
