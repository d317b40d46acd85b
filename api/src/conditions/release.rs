//! Condition types and reasons for TanzuKubernetesReleases and OSImages.

constants! {
    /// The release is compatible with this installation.
    COMPATIBLE = "Compatible";
    /// The release data is valid.
    VALID = "Valid";
    /// Newer releases are available.
    UPDATES_AVAILABLE = "UpdatesAvailable";
}

reasons! {
    /// The release data can't be parsed.
    Error CANNOT_PARSE_TKR = "CannotParseTKR";
    /// The release's OSImages contain different release data.
    Error CONFLICTING_OS_IMAGES = "ConflictingOSImages";
    /// Newer releases aren't available.
    Info ALREADY_UP_TO_DATE = "AlreadyUpToDate";
    /// The release is labeled as incompatible.
    Info INCOMPATIBLE = "Incompatible";
    /// The release is deactivated.
    Info DEACTIVATED = "Deactivated";
    /// An OSImage that the release refers to doesn't exist.
    Warning MISSING_OS_IMAGE = "MissingOSImage";
}
