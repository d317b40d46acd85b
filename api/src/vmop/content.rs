//! Where images come from: content libraries, who may use them.
//!
//! A ContentLibraryProvider names a library of vCenter, a ContentSource stands for it, and a
//! ContentSourceBinding lets a namespace use it. An image is owned by its provider, and that by its source.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A content library of vCenter.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "ContentLibraryProvider",
    status = "ContentLibraryProviderStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A content library of vCenter.",
    printcolumn(name = "Content-Library-UUID", type_ = "string", json_path = ".spec.uuid")
)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentLibraryProviderSpec {
    /// The library's identity in vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// A provider has no status of its own yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentLibraryProviderStatus {}

/// A source of images.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "ContentSource",
    status = "ContentSourceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A source of images."
)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSourceSpec {
    /// The provider of the images: a ContentLibraryProvider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<super::ContentProviderReference>,
}

/// A source has no status of its own yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSourceStatus {}

/// Allows a namespace to use the images of a source.
///
/// `contentSourceRef` sits at the top, not under a spec.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "ContentSourceBinding",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq",
    doc = "Allows a namespace to use the images of a source."
)]
#[serde(rename_all = "camelCase")]
pub struct ContentSourceBindingFields {
    /// The source.
    pub content_source_ref: ContentSourceReference,
}

/// The name of a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ContentSourceReference {
    /// `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `ContentSource`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name.
    pub name: String,
}
