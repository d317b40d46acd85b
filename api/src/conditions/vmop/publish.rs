//! Condition types and reasons for VirtualMachinePublishRequests.

constants! {
    /// The source virtual machine exists.
    SOURCE_VALID = "SourceValid";
    /// The target library is writable.
    TARGET_VALID = "TargetValid";
    /// The item is in the library.
    UPLOADED = "Uploaded";
    /// A VirtualMachineImage exists for the item.
    IMAGE_AVAILABLE = "ImageAvailable";
    /// The request is complete.
    COMPLETE = "Complete";
}

reasons! {
    /// The source VirtualMachine doesn't exist.
    Error SOURCE_VIRTUAL_MACHINE_NOT_EXIST = "SourceVirtualMachineNotExist";
    /// The source virtual machine doesn't exist in vCenter yet.
    Error SOURCE_VIRTUAL_MACHINE_NOT_CREATED = "SourceVirtualMachineNotCreated";
    /// The target library doesn't exist.
    Error TARGET_CONTENT_LIBRARY_NOT_EXIST = "TargetContentLibraryNotExist";
    /// The target library isn't writable.
    Error TARGET_CONTENT_LIBRARY_NOT_WRITABLE = "TargetContentLibraryNotWritable";
    /// The target library isn't usable yet.
    Error TARGET_CONTENT_LIBRARY_NOT_READY = "TargetContentLibraryNotReady";
    /// The target library already contains an item of this name.
    Error TARGET_ITEM_ALREADY_EXISTS = "TargetItemAlreadyExists";
    /// The upload hasn't started.
    Info NOT_STARTED = "NotStarted";
    /// vCenter has accepted the upload.
    Info QUEUED = "Queued";
    /// vCenter is uploading the item.
    Info UPLOADING = "Uploading";
    /// The upload has failed.
    Error UPLOAD_FAILURE = "UploadFailure";
    /// The item isn't in the library yet.
    Info HAS_NOT_BEEN_UPLOADED = "HasNotBeenUploaded";
    /// The VirtualMachineImage for the item doesn't exist yet.
    Info IMAGE_UNAVAILABLE = "ImageUnavailable";
}
