//! What a VirtualMachinePublishRequest says of itself.

constants! {
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
}

reasons! {
    /// There is no such VirtualMachine.
    Error SOURCE_VIRTUAL_MACHINE_NOT_EXIST = "SourceVirtualMachineNotExist";
    /// The VirtualMachine is not in vCenter yet.
    Error SOURCE_VIRTUAL_MACHINE_NOT_CREATED = "SourceVirtualMachineNotCreated";
    /// There is no such library.
    Error TARGET_CONTENT_LIBRARY_NOT_EXIST = "TargetContentLibraryNotExist";
    /// The library cannot be written to.
    Error TARGET_CONTENT_LIBRARY_NOT_WRITABLE = "TargetContentLibraryNotWritable";
    /// The library cannot be used yet.
    Error TARGET_CONTENT_LIBRARY_NOT_READY = "TargetContentLibraryNotReady";
    /// The library has an item of this name.
    Error TARGET_ITEM_ALREADY_EXISTS = "TargetItemAlreadyExists";
    /// Nothing was sent yet.
    Info NOT_STARTED = "NotStarted";
    /// vCenter has taken the order.
    Info QUEUED = "Queued";
    /// vCenter is at work.
    Info UPLOADING = "Uploading";
    /// vCenter could not publish it.
    Error UPLOAD_FAILURE = "UploadFailure";
    /// The item is not in the library yet.
    Info HAS_NOT_BEEN_UPLOADED = "HasNotBeenUploaded";
    /// The item has not become an image yet.
    Info IMAGE_UNAVAILABLE = "ImageUnavailable";
}
