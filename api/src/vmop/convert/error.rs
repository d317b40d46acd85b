//! Errors of VirtualMachine conversion.

use crate::conversion::Malformed;
use crate::vmop::GROUP;

/// An error that occurs during conversion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The object has an unsupported kind, group or version.
    #[error(
        "{kind} of {api_version}: only VirtualMachines of {GROUP}/v1alpha1 and {GROUP}/v1alpha2 are converted"
    )]
    NotConverted {
        /// The object's kind.
        kind: String,
        /// The object's API version, or the requested one.
        api_version: String,
    },
    /// A field doesn't match its type.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}
