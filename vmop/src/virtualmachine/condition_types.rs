//! Condition types that vm-operator added after v1alpha1. They say in more detail what is missing.

use api::conditions::vmop as known;

/// True if the class exists and is bound.
pub const CLASS: &str = known::VIRTUAL_MACHINE_CLASS_READY;
/// True if the image exists and can be cloned.
pub const IMAGE: &str = known::VIRTUAL_MACHINE_IMAGE_READY;
/// True if the storage class may be used.
pub const STORAGE: &str = known::VIRTUAL_MACHINE_STORAGE_READY;
/// True if the networks are realized.
pub const NETWORK: &str = known::VIRTUAL_MACHINE_NETWORK_READY;
/// True if the guest's data exists.
pub const BOOTSTRAP: &str = known::VIRTUAL_MACHINE_BOOTSTRAP_READY;
/// True if the folder and the resource pool are known.
pub const PLACEMENT: &str = known::VIRTUAL_MACHINE_PLACEMENT_READY;
/// True if the VM has the size that its class defines.
pub const CLASS_SYNCED: &str = known::VIRTUAL_MACHINE_CLASS_CONFIGURATION_SYNCED;
/// True if the VM has the requested virtual hardware version.
pub const COMPUTE_SYNCED: &str = known::VIRTUAL_MACHINE_COMPUTE_CONFIG_SYNCED;
/// True if the VM's disks aren't linked to a template.
pub const DISK_PROMOTION: &str = known::VIRTUAL_MACHINE_DISK_PROMOTION_SYNCED;
/// True if the VM is in its folder and resource pool.
pub const LOCATION: &str = known::VIRTUAL_MACHINE_LOCATION_VALID;
/// True if the VM isn't paused.
pub const RECONCILE: &str = known::VIRTUAL_MACHINE_RECONCILE_READY;
/// The bootstrap result that the guest reports.
pub const GUEST_BOOTSTRAP: &str = known::GUEST_BOOTSTRAP;
/// True if the requested restart is done.
pub const RESTART: &str = known::VIRTUAL_MACHINE_RESTARTED;
/// True if the VM is in the requested power state.
pub const POWER: &str = known::VIRTUAL_MACHINE_POWER_STATE_SYNCED;
/// True if the guest has an address.
pub const ADDRESS: &str = known::VIRTUAL_MACHINE_ADDRESS_READY;
