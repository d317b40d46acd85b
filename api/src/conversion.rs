//! The steps that the conversions of all kinds share: typed parts of an object, and the annotation that keeps the values
//! that a version can't represent.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::partial::members;

/// The error for a field that doesn't match its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Malformed {
    /// The field path.
    pub path: String,
    /// The deserialization error.
    pub reason: String,
}

/// Parses `value`, which is the member `at` of an object.
pub(crate) fn read<T: DeserializeOwned>(at: &str, value: &Value) -> Result<T, Malformed> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { at.to_owned() } else { format!("{at}.{path}") };
        Malformed { path, reason: error.into_inner().to_string() }
    })
}

pub(crate) fn write<T: Serialize>(value: &T) -> Result<Value, Malformed> {
    serde_json::to_value(value).map_err(|error| Malformed { path: String::new(), reason: error.to_string() })
}

/// Removes the annotation and returns its value, if that can be parsed. Otherwise no conversion has written it.
pub(crate) fn take_kept<T: DeserializeOwned>(object: &mut Value, annotation: &str) -> Option<T> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let kept = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str(kept.as_str()?).ok()
}

/// Adds the annotation to an object that has metadata.
pub(crate) fn put_kept(object: &mut Value, annotation: &str, kept: &Value) {
    let metadata = object.get_mut("metadata").and_then(members);
    let annotations =
        metadata.and_then(|metadata| members(metadata.entry("annotations").or_insert(Value::Null)));
    if let Some(annotations) = annotations {
        annotations.insert(annotation.to_owned(), kept.to_string().into());
    }
}
