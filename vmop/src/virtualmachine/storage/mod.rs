//! VM storage: datastore and policy, vSphere disks, PersistentVolumeClaims, and the promotion of linked disks.

pub mod claims;
pub mod class;
pub mod conditions;
pub mod disks;
pub mod marks;
pub mod observe;
pub mod places;
pub mod promotion;
pub mod promotions;
pub mod record;
