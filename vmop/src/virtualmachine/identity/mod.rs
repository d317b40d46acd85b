//! VM identity: the UUIDs of a VM, and the search for the VM in vCenter.

pub mod find;
pub mod lost;
pub mod uuids;
