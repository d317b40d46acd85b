//! Why an object cannot be converted.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
