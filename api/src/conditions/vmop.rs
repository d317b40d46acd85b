//! What VM Operator's kinds say of themselves.

pub mod publish;

constants! {
    in TYPES;
    /// Class, image and policy are there.
    VIRTUAL_MACHINE_PREREQ_READY = "VirtualMachinePrereqReady";
    /// How guest customisation went.
    GUEST_CUSTOMIZATION = "GuestCustomization";
    /// VMware Tools runs in the guest.
    VIRTUAL_MACHINE_TOOLS = "VirtualMachineTools";
    /// The virtual machine exists in vCenter.
    VIRTUAL_MACHINE_CREATED = "VirtualMachineCreated";
    /// The guest's operating system is one we know.
    VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED = "VirtualMachineImageOSTypeSupported";
    /// The image works with v1alpha1.
    VIRTUAL_MACHINE_IMAGE_V1ALPHA1_COMPATIBLE = "VirtualMachineImageV1Alpha1Compatible";
    /// The image was read from its library.
    VIRTUAL_MACHINE_IMAGE_SYNCED = "VirtualMachineImageSynced";
    /// The library of the image can be reached.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_READY = "VirtualMachineImageProviderReady";
    /// The library of the image meets its security policy.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE = "VirtualMachineImageProviderSecurityCompliance";
    /// The class is there, and bound to the namespace.
    VIRTUAL_MACHINE_CLASS_READY = "VirtualMachineClassReady";
    /// The image is there, and can be used.
    VIRTUAL_MACHINE_IMAGE_READY = "VirtualMachineImageReady";
    /// The storage class is there, and leads to a datastore.
    VIRTUAL_MACHINE_STORAGE_READY = "VirtualMachineStorageReady";
    /// The bootstrap data is there.
    VIRTUAL_MACHINE_BOOTSTRAP_READY = "VirtualMachineBootstrapReady";
    /// The networks are there, and the interfaces have what they need.
    VIRTUAL_MACHINE_NETWORK_READY = "VirtualMachineNetworkReady";
    /// It is known where the virtual machine shall lie.
    VIRTUAL_MACHINE_PLACEMENT_READY = "VirtualMachineConditionPlacementReady";
    /// The virtual machine is as its class says.
    VIRTUAL_MACHINE_CLASS_CONFIGURATION_SYNCED = "VirtualMachineClassConfigurationSynced";
    /// The virtual machine's power state is what its spec says.
    VIRTUAL_MACHINE_POWER_STATE_SYNCED = "VirtualMachinePowerStateSynced";
    /// VM Operator takes care of the virtual machine.
    VIRTUAL_MACHINE_RECONCILE_READY = "VirtualMachineReconcileReady";
    /// The virtual machine lies in the folder and pool it belongs in.
    VIRTUAL_MACHINE_LOCATION_VALID = "VirtualMachineLocationValid";
    /// The virtual machine's disks rest on no template.
    VIRTUAL_MACHINE_DISK_PROMOTION_SYNCED = "VirtualMachineDiskPromotionSynced";
    /// The virtual machine has the virtual hardware that was asked for.
    VIRTUAL_MACHINE_COMPUTE_CONFIG_SYNCED = "VirtualMachineComputeConfigSynced";
    /// The restart that was asked for is done.
    VIRTUAL_MACHINE_RESTARTED = "VirtualMachineRestarted";
    /// The guest has an address that others can use.
    VIRTUAL_MACHINE_ADDRESS_READY = "VirtualMachineAddressReady";
    /// What the guest reports of its own bootstrap.
    GUEST_BOOTSTRAP = "GuestBootstrap";
}

// Reasons of what is as it should be: never a cause.
constants! {
    /// Guest customisation is done.
    GUEST_CUSTOMIZATION_SUCCEEDED = "GuestCustomizationSucceeded";
    /// VMware Tools runs.
    VIRTUAL_MACHINE_TOOLS_RUNNING = "VirtualMachineToolsRunning";
    /// VM Operator takes care of it.
    VIRTUAL_MACHINE_RECONCILE_RUNNING = "VirtualMachineReconcileRunning";
}

reasons! {
    /// No class has this name.
    Error VIRTUAL_MACHINE_CLASS_NOT_FOUND = "VirtualMachineClassNotFound";
    /// The class is not bound to the namespace.
    Error VIRTUAL_MACHINE_CLASS_BINDING_NOT_FOUND = "VirtualMachineClassBindingNotFound";
    /// No image has this name.
    Error VIRTUAL_MACHINE_IMAGE_NOT_FOUND = "VirtualMachineImageNotFound";
    /// The image cannot be used yet.
    Error VIRTUAL_MACHINE_IMAGE_NOT_READY = "VirtualMachineImageNotReady";
    /// The image's content source is not bound to the namespace.
    Error CONTENT_SOURCE_BINDING_NOT_FOUND = "ContentSourceBindingNotFound";
    /// The image's library is not declared.
    Error CONTENT_LIBRARY_PROVIDER_NOT_FOUND = "ContentLibraryProviderNotFound";
    /// The resource policy is missing.
    Error RESOURCE_POLICY_NOT_FOUND = "VirtualMachineSetResourcePolicyNotFound";
    /// The resource policy is not realised yet.
    Error RESOURCE_POLICY_NOT_READY = "VirtualMachineSetResourcePolicyNotReady";
    /// The network is missing or not realised.
    Error NETWORK_NOT_READY = "NetworkNotReady";
    /// The storage class is missing or names no datastore.
    Error STORAGE_NOT_READY = "StorageNotReady";
    /// The Secret or ConfigMap of the metadata is missing.
    Error BOOTSTRAP_NOT_READY = "BootstrapNotReady";
    /// Guest customisation waits.
    Info GUEST_CUSTOMIZATION_PENDING = "GuestCustomizationPending";
    /// Guest customisation runs.
    Info GUEST_CUSTOMIZATION_RUNNING = "GuestCustomizationRunning";
    /// Guest customisation failed.
    Error GUEST_CUSTOMIZATION_FAILED = "GuestCustomizationFailed";
    /// VMware Tools does not run.
    Warning VIRTUAL_MACHINE_TOOLS_NOT_RUNNING = "VirtualMachineToolsNotRunning";
    /// The probe says no.
    Waiting NOT_READY = "NotReady";
    /// The probe has not answered.
    Waiting UNKNOWN = "Unknown";
    /// The object is going away.
    Info DELETING = "Deleting";
    /// The virtual machine could not be destroyed.
    Error DELETION_FAILED = "DeletionFailed";
    /// The virtual machine is destroyed, and finalizers of strangers hold its object.
    Warning DELETION_HELD = "DeletionHeld";
    /// The virtual machine was destroyed behind our back.
    Error VIRTUAL_MACHINE_LOST = "VirtualMachineLost";
    /// Another's virtual machine holds this name or identity.
    Error IDENTITY_CONFLICT = "IdentityConflict";
    /// vCenter does not answer, or refuses the credentials.
    Error PROVIDER_NOT_READY = "ProviderNotReady";
    /// The guest's operating system is not one we know.
    Error VIRTUAL_MACHINE_IMAGE_OS_TYPE_NOT_SUPPORTED = "VirtualMachineImageOSTypeNotSupported";
    /// The image does not work with v1alpha1.
    Error VIRTUAL_MACHINE_IMAGE_V1ALPHA1_NOT_COMPATIBLE = "VirtualMachineImageV1Alpha1NotCompatible";
    /// The image could not be read from its library.
    Error VIRTUAL_MACHINE_IMAGE_NOT_SYNCED = "VirtualMachineImageNotSynced";
    /// The library of the image cannot be reached.
    Error VIRTUAL_MACHINE_IMAGE_PROVIDER_NOT_READY = "VirtualMachineImageProviderNotReady";
    /// A storage class must be named, and is not.
    Error STORAGE_CLASS_REQUIRED = "StorageClassRequired";
    /// No datastore satisfies the storage class.
    Error DATASTORE_NOT_FOUND = "DatastoreNotFound";
    /// Nothing satisfies all that binds it to a zone.
    Error ZONE_MISMATCH = "ZoneMismatch";
    /// The class has changed since.
    Info SAME_CLASS_RESIZE = "SameClassResize";
    /// The virtual machine has another class than it was last given.
    Info CLASS_NAME_CHANGED = "ClassNameChanged";
    /// The class was changed.
    Info CLASS_UPDATED = "ClassUpdated";
    /// The virtual machine is in another pool.
    Warning RESOURCE_POOL_MISMATCH = "ResourcePoolMismatch";
    /// The virtual machine is in another folder.
    Error FOLDER_MISMATCH = "FolderMismatch";
    /// The virtual machine is in another pool and another folder.
    Warning RESOURCE_POOL_AND_FOLDER_MISMATCH = "ResourcePoolAndFolderMismatch";
    /// An annotation or an ExtraConfig key asks VM Operator to leave it alone.
    Info VIRTUAL_MACHINE_RECONCILE_PAUSED = "VirtualMachineReconcilePaused";
    /// vCenter knows nothing of the guest.
    Info NO_GUEST_INFO = "NoGuestInfo";
    /// It can be done only while the virtual machine is off.
    Info POWER_OFF_REQUIRED = "PowerOffRequired";
    /// The disks' turn has not come.
    Info DISK_PROMOTION_PENDING = "DiskPromotionPending";
    /// The disks are being copied.
    Info DISK_PROMOTION_RUNNING = "DiskPromotionRunning";
    /// The disks could not be copied.
    Error DISK_PROMOTION_TASK_ERROR = "DiskPromotionTaskError";
    /// The guest has not reported an address yet.
    Info WAITING_FOR_ADDRESS = "WaitingForAddress";
    /// The address that the guest reports is another virtual machine's.
    Error ADDRESS_IN_USE = "AddressInUse";
    /// The virtual machine is made when what it needs is there.
    Waiting WAITING_FOR_PREREQUISITES = "WaitingForPrerequisites";
    /// vCenter is cloning the virtual machine.
    Info CLONING = "Cloning";
    /// The guest was asked to shut down or to stand by.
    Info WAITING_FOR_GUEST = "WaitingForGuest";
    /// vCenter has not reported the end of an operation yet.
    Info WAITING_FOR_VCENTER = "WaitingForVCenter";
    /// The power state is being changed.
    Info POWER_STATE_CHANGING = "PowerStateChanging";
    /// The virtual machine is stopped by a question that a user must answer in vCenter.
    Error QUESTION_PENDING = "QuestionPending";
    /// vCenter has worked on a task for the virtual machine for longer than usual.
    Warning TASK_OVERDUE = "TaskOverdue";
    /// The virtual machine is off, as its spec says, or because it can't be suspended.
    Info POWERED_OFF = "PoweredOff";
    /// An annotation keeps the virtual machine from being powered on.
    Info POWER_ON_HELD_BACK = "PowerOnHeldBack";
    /// An annotation or an ExtraConfig key holds the operation back.
    Error HELD_BACK = "HeldBack";
    /// The spec can't be carried out.
    Error INVALID_SPEC = "InvalidSpec";
    /// The API server refused a write, or did not answer; it is tried again.
    Warning API_SERVER = "ApiServer";
    /// The resource policy names no such cluster module.
    Error CLUSTER_MODULE_NOT_FOUND = "ClusterModuleNotFound";
    /// Somebody else's folder or resource pool has the name.
    Error NAME_TAKEN = "NameTaken";
    /// A volume is being attached, or can't be.
    Error VOLUMES_NOT_ATTACHED = "VolumesNotAttached";
    /// Folder or resource pool is not known.
    Error PLACEMENT_NOT_READY = "PlacementNotReady";
    /// The guest's first boot failed.
    Error BOOTSTRAP_FAILED = "BootstrapFailed";
    /// The guest's first boot takes long.
    Warning BOOTSTRAP_IN_PROGRESS = "BootstrapInProgress";
    /// The guest was to report how its first boot went, and has not.
    Warning NO_BOOTSTRAP_STATUS = "NoBootstrapStatus";
    /// The disks could not be promoted; it is tried again.
    Warning DISK_PROMOTION_TRANSIENT_ERROR = "DiskPromotionTransientError";
}
