//! What a TanzuKubernetesRelease and an OSImage say of themselves.

constants! {
    /// The release fits this installation.
    COMPATIBLE = "Compatible";
    /// The release's own data makes sense.
    VALID = "Valid";
    /// Newer releases can be had.
    UPDATES_AVAILABLE = "UpdatesAvailable";
}

reasons! {
    /// The release's data cannot be read.
    Error CANNOT_PARSE_TKR = "CannotParseTKR";
    /// The images of the release disagree about it.
    Error CONFLICTING_OS_IMAGES = "ConflictingOSImages";
    /// Nothing newer is there.
    Info ALREADY_UP_TO_DATE = "AlreadyUpToDate";
    /// The release says that it does not fit.
    Info INCOMPATIBLE = "Incompatible";
    /// The release was taken out of use.
    Info DEACTIVATED = "Deactivated";
    /// An image the release names is missing.
    Warning MISSING_OS_IMAGE = "MissingOSImage";
}
