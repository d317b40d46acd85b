//! Where a VM lies: folder, resource pool, zone and cluster module.

pub mod observe;
pub mod zones;
