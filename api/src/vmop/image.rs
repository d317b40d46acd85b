//! VirtualMachineImage: an item of a content library that virtual machines are made from.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// An item of a content library that is an image for virtual machines.
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
    doc = "An item of a content library that is an image for virtual machines.",
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
    /// `OVF` or `ISO`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `Content Library`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_source_type: Option<String>,
    /// The item's identity in its library.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// The library.
    pub provider_ref: ContentProviderReference,
    /// The product information in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_info: Option<VirtualMachineImageProductInfo>,
    /// The operating system in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_info: Option<VirtualMachineImageOSInfo>,
    /// The OVF properties that a user can set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ovf_env: BTreeMap<String, OvfProperty>,
    /// The virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hw_version: Option<i32>,
}

/// The library of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct ContentProviderReference {
    /// Its API version.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name: for a content library its UUID.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The product information in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineImageProductInfo {
    /// The product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// The vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The short version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The full version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_version: Option<String>,
}

/// The operating system in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineImageOSInfo {
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The guest OS identifier of vSphere.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// An OVF property that a user can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "type"]))]
pub struct OvfProperty {
    /// Its key.
    pub key: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its default value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The purpose of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// The observed state of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineImageStatus {
    /// An identity of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The item's name, for older clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_id: Option<String>,
    /// The power state of a virtual machine that is used as an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// The item's name in its library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// Virtual machines can be created from the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_supported: Option<bool>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_library_ref: Option<ContentLibraryReference>,
    /// The item's content version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_version: Option<String>,
    /// `bios` or `efi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
}

/// The library of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct ContentLibraryReference {
    /// Its API group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}
