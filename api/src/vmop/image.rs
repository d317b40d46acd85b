//! VirtualMachineImage: a content library item from which virtual machines can be created.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// Content library item from which virtual machines can be created.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineImage",
    shortname = "vmi",
    shortname = "vmimage",
    status = "VirtualMachineImageStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Content library item from which virtual machines can be created.",
    printcolumn(name = "Provider-Name", type_ = "string", json_path = ".spec.providerRef.name"),
    printcolumn(
        name = "Content-Library-Name",
        type_ = "string",
        json_path = ".status.contentLibraryRef.name"
    ),
    printcolumn(name = "Image-Name", type_ = "string", json_path = ".status.imageName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.productInfo.version"),
    printcolumn(name = "Os-Type", type_ = "string", json_path = ".spec.osInfo.type"),
    printcolumn(name = "Format", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Image-Supported",
        type_ = "boolean",
        json_path = ".status.imageSupported",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "imageID", "providerRef"]))]
pub struct VirtualMachineImageSpec {
    /// Image format: `OVF` or `ISO`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Image source: `Content Library`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_source_type: Option<String>,
    /// Item UUID in the content library.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// Content library that contains the image.
    pub provider_ref: ContentProviderReference,
    /// Product information in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_info: Option<VirtualMachineImageProductInfo>,
    /// Operating system in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_info: Option<VirtualMachineImageOSInfo>,
    /// OVF properties that users can set, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ovf_env: BTreeMap<String, OvfProperty>,
    /// Virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hw_version: Option<i32>,
}

/// Reference to an image's content library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct ContentProviderReference {
    /// Library object API version.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Library object kind.
    pub kind: String,
    /// Library object name. For a content library, its UUID.
    pub name: String,
    /// Library object namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Product information in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineImageProductInfo {
    /// Product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Product vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Short product version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Long form of the product version, such as with a build number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_version: Option<String>,
}

/// Operating system in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineImageOSInfo {
    /// Operating system version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// vSphere guest OS identifier.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// OVF property that users can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "type"]))]
pub struct OvfProperty {
    /// Property key.
    pub key: String,
    /// OVF property type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Default value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Human-readable description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Human-readable label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Observed image state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineImageStatus {
    /// Image UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Library item name, for older clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_id: Option<String>,
    /// Power state, if a virtual machine serves as the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// Library item name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// True if virtual machines can be created from the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_supported: Option<bool>,
    /// Image conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Content library that contains the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_library_ref: Option<ContentLibraryReference>,
    /// Library item content version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_version: Option<String>,
    /// Firmware: `bios` or `efi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
}

/// Reference to an image's content library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct ContentLibraryReference {
    /// Library object API group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Library object kind.
    pub kind: String,
    /// Library object name.
    pub name: String,
}
