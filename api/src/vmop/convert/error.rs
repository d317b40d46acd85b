//! Why an object cannot be converted.

use crate::vmop::GROUP;

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The object is of another kind, group or version.
    #[error(
        "{kind} of {api_version}: only VirtualMachines of {GROUP}/v1alpha1 and {GROUP}/v1alpha2 are converted"
    )]
    NotConverted {
        /// Its kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// A field is not of its type.
    #[error("{path}: {reason}")]
    Malformed {
        /// Where the field is.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}
