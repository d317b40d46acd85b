//! What the disks of a VM lie on, its own disks, its claims, and the promotion of linked disks.

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
