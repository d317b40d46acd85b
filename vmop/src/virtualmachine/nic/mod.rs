//! VM NICs: requested by the spec, realized by network providers, and configured in vCenter.

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
