//! VirtualMachinePublishRequest: a virtual machine becomes an item of a content library.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// A request to publish a virtual machine as an item of a content library.
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
    doc = "A request to publish a virtual machine as an item of a content library."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachinePublishRequestSpec {
    /// The VirtualMachine to publish. If left out: the one with the name of the request.
    pub source: PublishSource,
    /// The item to create, and its library.
    pub target: PublishTarget,
    /// The request is deleted this many seconds after it has finished. If left out: it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// The source of a publication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishSource {
    /// Its name. If left out: the name of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// `VirtualMachine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kind: Option<String>,
}

/// The item to create, and its library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishTarget {
    /// The item.
    pub item: PublishTargetItem,
    /// The library.
    pub location: PublishTargetLocation,
}

/// The item a virtual machine becomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishTargetItem {
    /// Its name. If left out: the name of the source with the suffix `-image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub description: Option<String>,
}

/// The library it is published to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishTargetLocation {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// `imageregistry.vmware.com/v1alpha1`, or `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// `ContentLibrary`, or `ContentLibraryProvider` or `ContentSource` of `vmoperator.vmware.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kind: Option<String>,
}

/// The observed state of a publication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachinePublishRequestStatus {
    /// The source, with all defaults filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<PublishSource>,
    /// The target, with all defaults filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<PublishTarget>,
    /// When it finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The number of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
    /// When the last attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Time>,
    /// The VirtualMachineImage that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// The publication is complete and the image exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
