//! What VM Operator's kinds say of themselves.

words! {
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
    /// The load balancer of the service has an address.
    VIRTUAL_MACHINE_SERVICE_READY = "VirtualMachineServiceServiceReady";
    /// The library of the image meets its security policy.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE = "VirtualMachineImageProviderSecurityCompliance";
    /// The class is there, and bound to the namespace.
    VIRTUAL_MACHINE_CLASS_READY = "VirtualMachineClassReady";
    /// The image is there, and can be used.
    VIRTUAL_MACHINE_IMAGE_READY = "VirtualMachineImageReady";
    /// The resource policy is there, and realised.
    VIRTUAL_MACHINE_SET_RESOURCE_POLICY_READY = "VirtualMachineConditionVMSetResourcePolicyReady";
    /// The storage class is there, and leads to a datastore.
    VIRTUAL_MACHINE_STORAGE_READY = "VirtualMachineStorageReady";
    /// What the guest is told is there.
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
    /// The guest reports an address.
    VIRTUAL_MACHINE_IP_READY = "VirtualMachineIPReady";

    /// No class has this name.
    VIRTUAL_MACHINE_CLASS_NOT_FOUND = "VirtualMachineClassNotFound";
    /// The class is not bound to the namespace.
    VIRTUAL_MACHINE_CLASS_BINDING_NOT_FOUND = "VirtualMachineClassBindingNotFound";
    /// No image has this name.
    VIRTUAL_MACHINE_IMAGE_NOT_FOUND = "VirtualMachineImageNotFound";
    /// The image cannot be used yet.
    VIRTUAL_MACHINE_IMAGE_NOT_READY = "VirtualMachineImageNotReady";
    /// The image's content source is not bound to the namespace.
    CONTENT_SOURCE_BINDING_NOT_FOUND = "ContentSourceBindingNotFound";
    /// The image's library is not declared.
    CONTENT_LIBRARY_PROVIDER_NOT_FOUND = "ContentLibraryProviderNotFound";
    /// The resource policy is missing.
    RESOURCE_POLICY_NOT_FOUND = "VirtualMachineSetResourcePolicyNotFound";
    /// The resource policy is not realised yet.
    RESOURCE_POLICY_NOT_READY = "VirtualMachineSetResourcePolicyNotReady";
    /// The network is missing or not realised.
    NETWORK_NOT_READY = "NetworkNotReady";
    /// The storage class is missing or names no datastore.
    STORAGE_NOT_READY = "StorageNotReady";
    /// The Secret or ConfigMap of the metadata is missing.
    BOOTSTRAP_NOT_READY = "BootstrapNotReady";
    /// Guest customisation has not begun.
    GUEST_CUSTOMIZATION_IDLE = "GuestCustomizationIdle";
    /// Guest customisation waits.
    GUEST_CUSTOMIZATION_PENDING = "GuestCustomizationPending";
    /// Guest customisation runs.
    GUEST_CUSTOMIZATION_RUNNING = "GuestCustomizationRunning";
    /// Guest customisation is done.
    GUEST_CUSTOMIZATION_SUCCEEDED = "GuestCustomizationSucceeded";
    /// Guest customisation failed.
    GUEST_CUSTOMIZATION_FAILED = "GuestCustomizationFailed";
    /// VMware Tools does not run.
    VIRTUAL_MACHINE_TOOLS_NOT_RUNNING = "VirtualMachineToolsNotRunning";
    /// VMware Tools runs.
    VIRTUAL_MACHINE_TOOLS_RUNNING = "VirtualMachineToolsRunning";
    /// The probe says no.
    NOT_READY = "NotReady";
    /// The probe cannot tell.
    UNKNOWN = "Unknown";
    /// The object is going away.
    DELETING = "Deleting";
    /// The virtual machine could not be destroyed.
    DELETION_FAILED = "DeletionFailed";
    /// The virtual machine is destroyed.
    DELETED = "Deleted";
    /// vCenter refused or failed to make the virtual machine.
    CREATION_FAILED = "CreationFailed";
    /// The virtual machine was destroyed behind our back.
    VIRTUAL_MACHINE_LOST = "VirtualMachineLost";
    /// Another's virtual machine holds this name or identity.
    IDENTITY_CONFLICT = "IdentityConflict";
    /// vCenter does not answer, or refuses the credentials.
    PROVIDER_NOT_READY = "ProviderNotReady";
    /// The guest's operating system is not one we know.
    VIRTUAL_MACHINE_IMAGE_OS_TYPE_NOT_SUPPORTED = "VirtualMachineImageOSTypeNotSupported";
    /// The image does not work with v1alpha1.
    VIRTUAL_MACHINE_IMAGE_V1ALPHA1_NOT_COMPATIBLE = "VirtualMachineImageV1Alpha1NotCompatible";
    /// The image could not be read from its library.
    VIRTUAL_MACHINE_IMAGE_NOT_SYNCED = "VirtualMachineImageNotSynced";
    /// The library of the image cannot be reached.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_NOT_READY = "VirtualMachineImageProviderNotReady";
    /// What is named is not there.
    NOT_FOUND = "NotFound";
    /// What is named may not be read.
    FORBIDDEN = "Forbidden";
    /// What is named makes no sense.
    INVALID = "Invalid";
    /// It could not be told for a reason of our own.
    INTERNAL_ERROR = "InternalError";
    /// What is named could not be read.
    GET_ERROR = "GetError";
    /// Nothing is named.
    NOT_SET = "NotSet";
    /// What is named cannot be used here.
    NOT_SUPPORTED = "NotSupported";
    /// A storage class must be named, and is not.
    STORAGE_CLASS_REQUIRED = "StorageClassRequired";
    /// No datastore satisfies the storage class.
    DATASTORE_NOT_FOUND = "DatastoreNotFound";
    /// The Secret or ConfigMap lacks a key.
    REQUIRED_KEY_NOT_FOUND = "RequiredKeyNotFound";
    /// Nothing satisfies all that binds it to a zone.
    ZONE_MISMATCH = "ZoneMismatch";
    /// The class has changed since.
    SAME_CLASS_RESIZE = "SameClassResize";
    /// The virtual machine has another class than it was last given.
    CLASS_NAME_CHANGED = "ClassNameChanged";
    /// No class has this name.
    CLASS_NOT_FOUND = "ClassNotFound";
    /// The class was changed.
    CLASS_UPDATED = "ClassUpdated";
    /// The virtual machine is in another pool.
    RESOURCE_POOL_MISMATCH = "ResourcePoolMismatch";
    /// The virtual machine is in another folder.
    FOLDER_MISMATCH = "FolderMismatch";
    /// The virtual machine is in another pool and another folder.
    RESOURCE_POOL_AND_FOLDER_MISMATCH = "ResourcePoolAndFolderMismatch";
    /// VM Operator was told to leave it alone.
    VIRTUAL_MACHINE_RECONCILE_PAUSED = "VirtualMachineReconcilePaused";
    /// VM Operator takes care of it.
    VIRTUAL_MACHINE_RECONCILE_RUNNING = "VirtualMachineReconcileRunning";
    /// vCenter knows nothing of the guest.
    NO_GUEST_INFO = "NoGuestInfo";
    /// It can be done only while the virtual machine is off.
    POWER_OFF_REQUIRED = "PowerOffRequired";
    /// The disks' turn has not come.
    DISK_PROMOTION_PENDING = "DiskPromotionPending";
    /// The disks are being copied.
    DISK_PROMOTION_RUNNING = "DiskPromotionRunning";
    /// The disks could not be copied.
    DISK_PROMOTION_TASK_ERROR = "DiskPromotionTaskError";
    /// The library of the image breaks its security policy.
    VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_NOT_COMPLIANT = "VirtualMachineImageProviderSecurityNotCompliant";
}

/// What a VirtualMachinePublishRequest says of itself.
pub mod publish {
    words! {
        /// What is to be published is there.
        SOURCE_VALID = "SourceValid";
        /// The library it is published to can be written.
        TARGET_VALID = "TargetValid";
        /// The item is in the library.
        UPLOADED = "Uploaded";
        /// The item has become a VirtualMachineImage.
        IMAGE_AVAILABLE = "ImageAvailable";
        /// All of it is done.
        COMPLETE = "Complete";
        /// There is no such VirtualMachine.
        SOURCE_VIRTUAL_MACHINE_NOT_EXIST = "SourceVirtualMachineNotExist";
        /// The VirtualMachine is not in vCenter yet.
        SOURCE_VIRTUAL_MACHINE_NOT_CREATED = "SourceVirtualMachineNotCreated";
        /// There is no such library.
        TARGET_CONTENT_LIBRARY_NOT_EXIST = "TargetContentLibraryNotExist";
        /// The library cannot be written to.
        TARGET_CONTENT_LIBRARY_NOT_WRITABLE = "TargetContentLibraryNotWritable";
        /// The library cannot be used yet.
        TARGET_CONTENT_LIBRARY_NOT_READY = "TargetContentLibraryNotReady";
        /// The library has an item of this name.
        TARGET_ITEM_ALREADY_EXISTS = "TargetItemAlreadyExists";
        /// Nothing was sent yet.
        NOT_STARTED = "NotStarted";
        /// vCenter has taken the order.
        QUEUED = "Queued";
        /// vCenter is at work.
        UPLOADING = "Uploading";
        /// vCenter gave no identity of the item.
        ITEM_ID_INVALID = "ItemIDInvalid";
        /// vCenter could not publish it.
        UPLOAD_FAILURE = "UploadFailure";
        /// The item is not in the library yet.
        HAS_NOT_BEEN_UPLOADED = "HasNotBeenUploaded";
        /// The item has not become an image yet.
        IMAGE_UNAVAILABLE = "ImageUnavailable";
    }
}
