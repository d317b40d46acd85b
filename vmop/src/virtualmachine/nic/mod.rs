//! The NICs of a VM: what the spec asks for, what network providers answer, and what vCenter is given.

pub mod change;
pub mod interface;
pub mod nic;
pub mod observe;
pub mod requests;
