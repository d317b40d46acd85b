//! Condition types that vm-operator added after v1alpha1 and that say more finely what is missing.

/// The class is there and bound.
pub const CLASS: &str = "VirtualMachineClassReady";
/// The image is there and can be cloned.
pub const IMAGE: &str = "VirtualMachineImageReady";
/// The storage class may be used.
pub const STORAGE: &str = "VirtualMachineStorageReady";
/// The networks are realised.
pub const NETWORK: &str = "VirtualMachineNetworkReady";
/// The guest's data is there.
pub const BOOTSTRAP: &str = "VirtualMachineBootstrapReady";
/// Folder and pool are known.
pub const PLACEMENT: &str = "VirtualMachineConditionPlacementReady";
/// The VM has its class's size.
pub const CLASS_SYNCED: &str = "VirtualMachineClassConfigurationSynced";
/// The VM has the virtual hardware that was asked for.
pub const COMPUTE_SYNCED: &str = "VirtualMachineComputeConfigSynced";
/// The VM's disks rest on no template.
pub const DISK_PROMOTION: &str = "VirtualMachineDiskPromotionSynced";
/// The VM lies where it should.
pub const LOCATION: &str = "VirtualMachineLocationValid";
/// The VM is not left alone.
pub const RECONCILE: &str = "VirtualMachineReconcileReady";
/// What the guest says of its own bootstrap.
pub const GUEST_BOOTSTRAP: &str = api::conditions::vmop::GUEST_BOOTSTRAP;
/// The restart that was asked for is done.
pub const RESTART: &str = "VirtualMachineRestarted";
/// The VM is in the power state that was asked for.
pub const POWER: &str = "VirtualMachinePowerStateSynced";
/// The guest has an address.
pub const ADDRESS: &str = "VirtualMachineAddressReady";
