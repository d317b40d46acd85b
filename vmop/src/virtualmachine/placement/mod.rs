//! VM placement: folder, resource pool, zone and cluster module.

pub mod conditions;
pub mod module;
pub mod namespace;
pub mod policy;
pub mod zones;
