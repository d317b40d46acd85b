//! Lossless conversion between all versions of TanzuKubernetesCluster.
//!
//! v1alpha3 is the hub, and v1alpha2 has the same shape. v1alpha1 supports only one node pool and no release
//! references, so an annotation keeps the values that the target version can't represent. The conversion back merges
//! them with the user's changes; visible fields always win.
//!
//! The API server also converts partial objects, which contain only the fields that one manager owns ([`crate::partial`]). A
//! partial object is converted to a partial object.

mod status;
mod v1alpha1;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GROUP, v1alpha1 as old, v1alpha3 as hub};
use crate::conversion::{Malformed, put_kept, read, take_kept, write};
use crate::names::annotation::CONVERSION_DATA;
use crate::partial::{ensure_metadata, take_member};

/// The stored version of TanzuKubernetesCluster, as an API version.
pub const HUB: &str = "run.tanzu.vmware.com/v1alpha3";

/// An error that occurs during conversion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The object has another kind or group.
    #[error("{kind} of {api_version} is not a TanzuKubernetesCluster of {GROUP}")]
    NotACluster {
        /// The object's kind.
        kind: String,
        /// The object's API version.
        api_version: String,
    },
    /// The version doesn't exist.
    #[error("TanzuKubernetesCluster has no version {0:?}. Use v1alpha1, v1alpha2 or v1alpha3")]
    UnknownVersion(String),
    /// A field doesn't match its type.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Converts a TanzuKubernetesCluster to another API version, such as `run.tanzu.vmware.com/v1alpha3`. Only one
/// annotation in the metadata changes. Any part of the object may be missing or null.
pub fn convert(object: &Value, desired_api_version: &str) -> Result<Value, ConvertError> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let from = Version::parse(api_version)?;
    if kind != "TanzuKubernetesCluster" {
        let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
        return Err(ConvertError::NotACluster { kind, api_version });
    }
    let to = Version::parse(desired_api_version)?;
    let mut converted = object.clone();
    set(&mut converted, "apiVersion", Value::from(desired_api_version));
    ensure_metadata(&mut converted);
    match (from, to) {
        (Version::V1Alpha1, Version::Hub) => across::<Old, Hub>(&mut converted)?,
        (Version::Hub, Version::V1Alpha1) => across::<Hub, Old>(&mut converted)?,
        (Version::V1Alpha1, Version::V1Alpha1) | (Version::Hub, Version::Hub) => {}
    }
    Ok(converted)
}

/// The two shapes of the three versions. v1alpha2 has the shape of the hub.
#[derive(Clone, Copy)]
enum Version {
    V1Alpha1,
    Hub,
}

impl Version {
    fn parse(api_version: &str) -> Result<Self, ConvertError> {
        match api_version.split_once('/') {
            Some((GROUP, "v1alpha1")) => Ok(Self::V1Alpha1),
            Some((GROUP, "v1alpha2" | "v1alpha3")) => Ok(Self::Hub),
            Some((GROUP, other)) => Err(ConvertError::UnknownVersion(other.to_owned())),
            _ => Err(ConvertError::NotACluster {
                kind: "an object".to_owned(),
                api_version: api_version.to_owned(),
            }),
        }
    }
}

/// The spec and status types of one version.
trait Shape {
    /// The version name in the annotation.
    const NAME: &'static str;
    type Spec: Serialize + DeserializeOwned + PartialEq;
    type Status: Serialize + DeserializeOwned + PartialEq;
}

/// Conversion from one shape to another. `kept` is the spec from which an earlier conversion created this object.
trait Becomes<To: Shape>: Shape {
    fn spec(spec: &Self::Spec, kept: Option<&To::Spec>) -> To::Spec;
    fn status(status: &Self::Status) -> To::Status;
    /// Removes required fields of `converted` whose source fields are missing in `spec`.
    fn remove_defaults(spec: &Value, converted: &mut Value);
}

/// The shape of v1alpha1.
struct Old;

impl Shape for Old {
    const NAME: &'static str = "v1alpha1";
    type Spec = old::TanzuKubernetesClusterSpec;
    type Status = old::TanzuKubernetesClusterStatus;
}

/// The shape of v1alpha3 and v1alpha2.
struct Hub;

impl Shape for Hub {
    const NAME: &'static str = "v1alpha3";
    type Spec = hub::TanzuKubernetesClusterSpec;
    type Status = hub::TanzuKubernetesClusterStatus;
}

/// The annotation's value: the spec and status of the object in the version that it was converted from.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

/// Converts the spec and status of `object` to the other shape. Reads and writes the annotation.
fn across<From, To>(object: &mut Value) -> Result<(), ConvertError>
where
    From: Becomes<To>,
    To: Becomes<From>,
{
    let kept = take_kept::<Kept>(object, CONVERSION_DATA).filter(|kept| kept.version == To::NAME);
    let mut lost = Kept { version: From::NAME.to_owned(), ..Kept::default() };
    if let Some(value) = take_member(object, "spec") {
        let spec: From::Spec = read("spec", &value)?;
        // Ignore an annotation that can't be parsed: this conversion didn't write it.
        let kept: Option<To::Spec> = kept
            .as_ref()
            .and_then(|kept| kept.spec.clone())
            .and_then(|spec| serde_json::from_value(spec).ok());
        let result = match kept {
            Some(kept) if To::spec(&kept, None) == spec => kept,
            kept => From::spec(&spec, kept.as_ref()),
        };
        let mut converted = write(&result)?;
        From::remove_defaults(&value, &mut converted);
        if To::spec(&result, None) != spec {
            lost.spec = Some(value);
        }
        set(object, "spec", converted);
    }
    if let Some(value) = take_member(object, "status") {
        let status: From::Status = read("status", &value)?;
        let kept: Option<To::Status> = kept
            .as_ref()
            .and_then(|kept| kept.status.clone())
            .and_then(|status| serde_json::from_value(status).ok());
        let result = kept.filter(|kept| To::status(kept) == status).unwrap_or_else(|| From::status(&status));
        if To::status(&result) != status {
            lost.status = Some(value);
        }
        set(object, "status", write(&result)?);
    }
    if lost.spec.is_some() || lost.status.is_some() {
        put_kept(object, CONVERSION_DATA, &write(&lost)?);
    }
    Ok(())
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
