//! What nodes boot from and keep, and nodes that are machines under QEMU.

pub mod boot_data;
mod disks;
mod real_node;
