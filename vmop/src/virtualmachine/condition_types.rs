//! Condition types that vm-operator added after v1alpha1 and that say more finely what is missing.

use api::conditions::vmop as known;

/// The class is there and bound.
pub const CLASS: &str = known::VIRTUAL_MACHINE_CLASS_READY;
/// The image is there and can be cloned.
pub const IMAGE: &str = known::VIRTUAL_MACHINE_IMAGE_READY;
/// The storage class may be used.
pub const STORAGE: &str = known::VIRTUAL_MACHINE_STORAGE_READY;
/// The networks are realised.
pub const NETWORK: &str = known::VIRTUAL_MACHINE_NETWORK_READY;
/// The guest's data is there.
pub const BOOTSTRAP: &str = known::VIRTUAL_MACHINE_BOOTSTRAP_READY;
/// Folder and pool are known.
pub const PLACEMENT: &str = known::VIRTUAL_MACHINE_PLACEMENT_READY;
/// The VM has its class's size.
pub const CLASS_SYNCED: &str = known::VIRTUAL_MACHINE_CLASS_CONFIGURATION_SYNCED;
/// The VM has the virtual hardware that was asked for.
pub const COMPUTE_SYNCED: &str = known::VIRTUAL_MACHINE_COMPUTE_CONFIG_SYNCED;
/// The VM's disks rest on no template.
pub const DISK_PROMOTION: &str = known::VIRTUAL_MACHINE_DISK_PROMOTION_SYNCED;
/// The VM lies where it should.
pub const LOCATION: &str = known::VIRTUAL_MACHINE_LOCATION_VALID;
/// The VM is not left alone.
pub const RECONCILE: &str = known::VIRTUAL_MACHINE_RECONCILE_READY;
/// What the guest says of its own bootstrap.
pub const GUEST_BOOTSTRAP: &str = known::GUEST_BOOTSTRAP;
/// The restart that was asked for is done.
pub const RESTART: &str = known::VIRTUAL_MACHINE_RESTARTED;
/// The VM is in the power state that was asked for.
pub const POWER: &str = known::VIRTUAL_MACHINE_POWER_STATE_SYNCED;
/// The guest has an address.
pub const ADDRESS: &str = known::VIRTUAL_MACHINE_ADDRESS_READY;
