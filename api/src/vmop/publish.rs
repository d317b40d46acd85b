//! VirtualMachinePublishRequest: a request to publish a virtual machine to a content library.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// Request to publish a virtual machine as a content library item.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachinePublishRequest",
    namespaced,
    shortname = "vmpub",
    status = "VirtualMachinePublishRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Request to publish a virtual machine as a content library item."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachinePublishRequestSpec {
    /// VirtualMachine to publish. Defaults to the VirtualMachine with the request's name. Immutable.
    pub source: PublishSource,
    /// Library item to create, and its content library. Immutable.
    pub target: PublishTarget,
    /// Time to keep the request after it has finished, in seconds. If not set, the request isn't deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// Reference to the virtual machine to publish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishSource {
    /// VirtualMachine name. Defaults to the request's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Source API version: `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// Source kind: `VirtualMachine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kind: Option<String>,
}

/// Library item to create, and its content library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishTarget {
    /// Library item to create.
    pub item: PublishTargetItem,
    /// Content library in which the item is created. Its name is required.
    pub location: PublishTargetLocation,
}

/// Library item to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishTargetItem {
    /// Item name. Defaults to the source's name with the suffix `-image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Item description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub description: Option<String>,
}

/// Reference to a content library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishTargetLocation {
    /// Content library name. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Library object API version: `imageregistry.vmware.com/v1alpha1` or `vmoperator.vmware.com/v1alpha1`.
    /// Defaults to `imageregistry.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// Library object kind: `ContentLibrary` in group imageregistry.vmware.com, or `ContentLibraryProvider` or
    /// `ContentSource` in group vmoperator.vmware.com. Defaults to `ContentLibrary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kind: Option<String>,
}

/// Observed publish request state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachinePublishRequestStatus {
    /// Source with defaults applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<PublishSource>,
    /// Target with defaults applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<PublishTarget>,
    /// Time at which the request finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Time at which the request started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Attempt count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
    /// Time at which the last attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Time>,
    /// VirtualMachineImage that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// True if the request is complete and the image exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Request conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
