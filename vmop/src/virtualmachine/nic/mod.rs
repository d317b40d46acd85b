//! The NICs of a VM: what the spec asks for, what network providers answer, and what vCenter is given.

pub mod adapter;
pub mod change;
pub mod claims;
pub mod device_changes;
pub mod endpoint;
pub mod observe;
pub mod realization;
pub mod request;
pub mod source;
#[cfg(test)]
mod tests;
