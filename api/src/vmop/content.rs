//! Content libraries, and the bindings that allow namespaces to use their images.
//!
//! A ContentLibraryProvider identifies a vCenter content library, a ContentSource refers to a provider, and a
//! ContentSourceBinding allows a namespace to use a source. A VirtualMachineImage is owned by its provider, and a
//! provider by its source.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Content library in vCenter.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "ContentLibraryProvider",
    status = "ContentLibraryProviderStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Content library in vCenter.",
    printcolumn(name = "Content-Library-UUID", type_ = "string", json_path = ".spec.uuid")
)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentLibraryProviderSpec {
    /// Content library UUID in vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// Observed content library provider state. Currently empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentLibraryProviderStatus {}

/// Source of images that namespaces can be bound to.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "ContentSource",
    status = "ContentSourceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Source of images that namespaces can be bound to."
)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSourceSpec {
    /// ContentLibraryProvider that provides the images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<super::ContentProviderReference>,
}

/// Observed content source state. Currently empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSourceStatus {}

/// Allows a namespace to use a content source's images.
///
/// `contentSourceRef` is a top-level field. There is no spec.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "ContentSourceBinding",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq",
    doc = "Allows a namespace to use a content source's images."
)]
#[serde(rename_all = "camelCase")]
pub struct ContentSourceBindingFields {
    /// ContentSource that the namespace can use.
    pub content_source_ref: ContentSourceReference,
}

/// Reference to a ContentSource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ContentSourceReference {
    /// Source API version: `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Source kind: `ContentSource`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Source name.
    pub name: String,
}
