//! Why an object cannot be converted.

use crate::names::annotation::VM_CONVERSION_DATA;
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
    /// It was not read before it was written.
    #[error(
        "{GROUP}/v1alpha2 cannot create a VirtualMachine; use {GROUP}/v1alpha1. To update one that was read in v1alpha2, write its annotation {VM_CONVERSION_DATA} back unchanged"
    )]
    NotRead,
    /// A field was changed that v1alpha2 shows only.
    #[error(
        "{field}: {GROUP}/v1alpha2 can only change volumes of claims. Change this field in {GROUP}/v1alpha1"
    )]
    ShownOnly {
        /// The field.
        field: String,
    },
}
