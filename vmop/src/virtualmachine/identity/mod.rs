//! Who a VM is: its UUIDs, and what vCenter has of them.

pub mod find;
mod lost;
