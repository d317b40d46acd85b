//! Stories about nodes: boot data, disks, and nodes that boot under QEMU.

pub mod boot_data;
mod disks;
mod management;
mod real_node;
