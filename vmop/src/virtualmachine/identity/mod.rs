//! Who a VM is: its UUIDs, and what vCenter has of it.

pub mod find;
pub mod lost;
pub mod uuids;
