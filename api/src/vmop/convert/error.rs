//! Errors of VirtualMachine conversion.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
    #[error("{path}: {reason}")]
    Malformed {
        /// The field path.
        path: String,
        /// The deserialization error.
        reason: String,
    },
}

pub(super) fn read<T: DeserializeOwned>(at: &str, value: &Value) -> Result<T, ConvertError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { at.to_owned() } else { format!("{at}.{path}") };
        ConvertError::Malformed { path, reason: error.into_inner().to_string() }
    })
}

pub(super) fn write<T: Serialize>(value: &T) -> Result<Value, ConvertError> {
    serde_json::to_value(value)
        .map_err(|error| ConvertError::Malformed { path: String::new(), reason: error.to_string() })
}
