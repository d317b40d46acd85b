//! Condition types and reasons for VM Operator's kinds.

pub mod publish;

constants! {
    in TYPES;
    /// The class, image and policy of the virtual machine exist and are usable.
    VIRTUAL_MACHINE_PREREQ_READY = "VirtualMachinePrereqReady";
    /// Guest customization has succeeded.
    GUEST_CUSTOMIZATION = "GuestCustomization";
    /// VMware Tools is running in the guest.
    VIRTUAL_MACHINE_TOOLS = "VirtualMachineTools";
    /// The virtual machine exists in vCenter.
    VIRTUAL_MACHINE_CREATED = "VirtualMachineCreated";
    /// VM Operator supports the image's guest operating system.
    VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED = "VirtualMachineImageOSTypeSupported";
    /// The image works with v1alpha1.
    VIRTUAL_MACHINE_IMAGE_V1ALPHA1_COMPATIBLE = "VirtualMachineImageV1Alpha1Compatible";
    /// VM Operator has read the image from its content library.
    VIRTUAL_MACHINE_IMAGE_SYNCED = "VirtualMachineImageSynced";
    /// The image's content library is reachable.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_READY = "VirtualMachineImageProviderReady";
    /// The image's content library complies with its security policy.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE = "VirtualMachineImageProviderSecurityCompliance";
    /// The class exists and is bound to the namespace.
    VIRTUAL_MACHINE_CLASS_READY = "VirtualMachineClassReady";
    /// The image exists and is usable.
    VIRTUAL_MACHINE_IMAGE_READY = "VirtualMachineImageReady";
    /// The storage class exists and maps to a datastore.
    VIRTUAL_MACHINE_STORAGE_READY = "VirtualMachineStorageReady";
    /// The bootstrap data exists.
    VIRTUAL_MACHINE_BOOTSTRAP_READY = "VirtualMachineBootstrapReady";
    /// The networks exist and all interfaces are configured.
    VIRTUAL_MACHINE_NETWORK_READY = "VirtualMachineNetworkReady";
    /// VM Operator has determined the placement of the virtual machine.
    VIRTUAL_MACHINE_PLACEMENT_READY = "VirtualMachineConditionPlacementReady";
    /// The virtual machine matches its class.
    VIRTUAL_MACHINE_CLASS_CONFIGURATION_SYNCED = "VirtualMachineClassConfigurationSynced";
    /// The virtual machine's power state matches the spec.
    VIRTUAL_MACHINE_POWER_STATE_SYNCED = "VirtualMachinePowerStateSynced";
    /// VM Operator reconciles the virtual machine.
    VIRTUAL_MACHINE_RECONCILE_READY = "VirtualMachineReconcileReady";
    /// The virtual machine is in the expected folder and resource pool.
    VIRTUAL_MACHINE_LOCATION_VALID = "VirtualMachineLocationValid";
    /// The virtual machine's disks don't depend on a template.
    VIRTUAL_MACHINE_DISK_PROMOTION_SYNCED = "VirtualMachineDiskPromotionSynced";
    /// The virtual machine has the requested virtual hardware version.
    VIRTUAL_MACHINE_COMPUTE_CONFIG_SYNCED = "VirtualMachineComputeConfigSynced";
    /// The requested restart is complete.
    VIRTUAL_MACHINE_RESTARTED = "VirtualMachineRestarted";
    /// The guest has a usable address.
    VIRTUAL_MACHINE_ADDRESS_READY = "VirtualMachineAddressReady";
    /// The guest's bootstrap has succeeded, according to the guest's own report.
    GUEST_BOOTSTRAP = "GuestBootstrap";
}

// Reasons for true conditions. They are never a cause.
constants! {
    /// Guest customization has succeeded.
    GUEST_CUSTOMIZATION_SUCCEEDED = "GuestCustomizationSucceeded";
    /// VMware Tools is running in the guest.
    VIRTUAL_MACHINE_TOOLS_RUNNING = "VirtualMachineToolsRunning";
    /// VM Operator reconciles the virtual machine.
    VIRTUAL_MACHINE_RECONCILE_RUNNING = "VirtualMachineReconcileRunning";
}

reasons! {
    /// The class doesn't exist.
    Error VIRTUAL_MACHINE_CLASS_NOT_FOUND = "VirtualMachineClassNotFound";
    /// The class isn't bound to the namespace.
    Error VIRTUAL_MACHINE_CLASS_BINDING_NOT_FOUND = "VirtualMachineClassBindingNotFound";
    /// The image doesn't exist.
    Error VIRTUAL_MACHINE_IMAGE_NOT_FOUND = "VirtualMachineImageNotFound";
    /// The image isn't usable yet.
    Error VIRTUAL_MACHINE_IMAGE_NOT_READY = "VirtualMachineImageNotReady";
    /// The image's ContentSource isn't bound to the namespace.
    Error CONTENT_SOURCE_BINDING_NOT_FOUND = "ContentSourceBindingNotFound";
    /// The image's ContentLibraryProvider doesn't exist.
    Error CONTENT_LIBRARY_PROVIDER_NOT_FOUND = "ContentLibraryProviderNotFound";
    /// The resource policy doesn't exist.
    Error RESOURCE_POLICY_NOT_FOUND = "VirtualMachineSetResourcePolicyNotFound";
    /// The resource policy isn't realized yet.
    Error RESOURCE_POLICY_NOT_READY = "VirtualMachineSetResourcePolicyNotReady";
    /// The network doesn't exist or isn't realized.
    Error NETWORK_NOT_READY = "NetworkNotReady";
    /// The storage class doesn't exist or doesn't map to a datastore.
    Error STORAGE_NOT_READY = "StorageNotReady";
    /// The Secret or ConfigMap with the bootstrap data doesn't exist.
    Error BOOTSTRAP_NOT_READY = "BootstrapNotReady";
    /// Guest customization hasn't started.
    Info GUEST_CUSTOMIZATION_PENDING = "GuestCustomizationPending";
    /// Guest customization is running.
    Info GUEST_CUSTOMIZATION_RUNNING = "GuestCustomizationRunning";
    /// Guest customization has failed.
    Error GUEST_CUSTOMIZATION_FAILED = "GuestCustomizationFailed";
    /// VMware Tools isn't running in the guest.
    Warning VIRTUAL_MACHINE_TOOLS_NOT_RUNNING = "VirtualMachineToolsNotRunning";
    /// The readiness probe has failed.
    Waiting NOT_READY = "NotReady";
    /// The readiness probe hasn't returned a result.
    Waiting UNKNOWN = "Unknown";
    /// The object is being deleted.
    Info DELETING = "Deleting";
    /// The virtual machine couldn't be destroyed.
    Error DELETION_FAILED = "DeletionFailed";
    /// The virtual machine is destroyed, but finalizers of other programs block the deletion of its object.
    Warning DELETION_HELD = "DeletionHeld";
    /// The virtual machine was removed from vCenter, but not by VM Operator.
    Error VIRTUAL_MACHINE_LOST = "VirtualMachineLost";
    /// A virtual machine or Service that belongs to another object has the same name or identity.
    Error IDENTITY_CONFLICT = "IdentityConflict";
    /// vCenter doesn't respond or rejects the credentials.
    Error PROVIDER_NOT_READY = "ProviderNotReady";
    /// VM Operator doesn't support the guest operating system.
    Error VIRTUAL_MACHINE_IMAGE_OS_TYPE_NOT_SUPPORTED = "VirtualMachineImageOSTypeNotSupported";
    /// The image doesn't work with v1alpha1.
    Error VIRTUAL_MACHINE_IMAGE_V1ALPHA1_NOT_COMPATIBLE = "VirtualMachineImageV1Alpha1NotCompatible";
    /// The image couldn't be read from its content library.
    Error VIRTUAL_MACHINE_IMAGE_NOT_SYNCED = "VirtualMachineImageNotSynced";
    /// The image's content library isn't reachable.
    Error VIRTUAL_MACHINE_IMAGE_PROVIDER_NOT_READY = "VirtualMachineImageProviderNotReady";
    /// The spec doesn't name a storage class, although one is required.
    Error STORAGE_CLASS_REQUIRED = "StorageClassRequired";
    /// The storage class doesn't match any datastore.
    Error DATASTORE_NOT_FOUND = "DatastoreNotFound";
    /// The namespace's zones don't satisfy all zone constraints of the virtual machine.
    Error ZONE_MISMATCH = "ZoneMismatch";
    /// The class has changed; the virtual machine is resized at its next power-off.
    Info SAME_CLASS_RESIZE = "SameClassResize";
    /// The spec names another class; the virtual machine is resized at its next power-off.
    Info CLASS_NAME_CHANGED = "ClassNameChanged";
    /// The class has changed; the virtual machine keeps its size.
    Info CLASS_UPDATED = "ClassUpdated";
    /// The virtual machine isn't in the expected resource pool.
    Warning RESOURCE_POOL_MISMATCH = "ResourcePoolMismatch";
    /// The virtual machine isn't in the expected folder.
    Error FOLDER_MISMATCH = "FolderMismatch";
    /// The virtual machine is neither in the expected resource pool nor in the expected folder.
    Warning RESOURCE_POOL_AND_FOLDER_MISMATCH = "ResourcePoolAndFolderMismatch";
    /// An annotation or an ExtraConfig key pauses VM Operator for the virtual machine.
    Info VIRTUAL_MACHINE_RECONCILE_PAUSED = "VirtualMachineReconcilePaused";
    /// vCenter doesn't have information about the guest.
    Info NO_GUEST_INFO = "NoGuestInfo";
    /// The change requires that the virtual machine is powered off.
    Info POWER_OFF_REQUIRED = "PowerOffRequired";
    /// Disk promotion hasn't started.
    Info DISK_PROMOTION_PENDING = "DiskPromotionPending";
    /// Disk promotion is running.
    Info DISK_PROMOTION_RUNNING = "DiskPromotionRunning";
    /// Disk promotion has failed.
    Error DISK_PROMOTION_TASK_ERROR = "DiskPromotionTaskError";
    /// The guest hasn't reported an address yet.
    Info WAITING_FOR_ADDRESS = "WaitingForAddress";
    /// Another virtual machine uses the address that the guest reports.
    Error ADDRESS_IN_USE = "AddressInUse";
    /// VM Operator waits for the virtual machine's prerequisites before it creates the virtual machine.
    Waiting WAITING_FOR_PREREQUISITES = "WaitingForPrerequisites";
    /// vCenter is cloning the virtual machine.
    Info CLONING = "Cloning";
    /// VM Operator has requested a guest shutdown or standby, and waits until the guest has carried it out.
    Info WAITING_FOR_GUEST = "WaitingForGuest";
    /// vCenter hasn't reported the end of an operation yet.
    Info WAITING_FOR_VCENTER = "WaitingForVCenter";
    /// The power state is being changed.
    Info POWER_STATE_CHANGING = "PowerStateChanging";
    /// A pending question in vCenter, which a user must answer, blocks the virtual machine.
    Error QUESTION_PENDING = "QuestionPending";
    /// A vCenter task for the virtual machine is taking longer than usual.
    Warning TASK_OVERDUE = "TaskOverdue";
    /// The virtual machine is powered off, as requested or because it can't be suspended.
    Info POWERED_OFF = "PoweredOff";
    /// An annotation blocks the virtual machine's power-on.
    Info POWER_ON_HELD_BACK = "PowerOnHeldBack";
    /// An annotation or an ExtraConfig key blocks the operation.
    Error HELD_BACK = "HeldBack";
    /// VM Operator can't apply the spec.
    Error INVALID_SPEC = "InvalidSpec";
    /// The API server has rejected a write or hasn't responded. VM Operator retries it.
    Warning API_SERVER = "ApiServer";
    /// The resource policy doesn't contain the cluster module.
    Error CLUSTER_MODULE_NOT_FOUND = "ClusterModuleNotFound";
    /// A folder or resource pool with the requested name exists, but VM Operator didn't create it.
    Error NAME_TAKEN = "NameTaken";
    /// A volume isn't attached yet, or can't be attached.
    Error VOLUMES_NOT_ATTACHED = "VolumesNotAttached";
    /// The folder or resource pool for the virtual machine isn't known.
    Error PLACEMENT_NOT_READY = "PlacementNotReady";
    /// The guest's first boot has failed.
    Error BOOTSTRAP_FAILED = "BootstrapFailed";
    /// The guest's first boot is still running after a long time.
    Info BOOTSTRAP_IN_PROGRESS = "BootstrapInProgress";
    /// The guest didn't report the result of its first boot in time.
    Warning NO_BOOTSTRAP_STATUS = "NoBootstrapStatus";
    /// Disk promotion has failed. VM Operator retries it.
    Warning DISK_PROMOTION_TRANSIENT_ERROR = "DiskPromotionTransientError";
}
