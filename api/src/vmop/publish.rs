//! VirtualMachinePublishRequest: a virtual machine becomes an item of a content library.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// A virtual machine that shall become an item of a content library.
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
    doc = "A virtual machine that shall become an item of a content library."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachinePublishRequestSpec {
    /// What is published. Left out: the VirtualMachine of the request's own name.
    pub source: PublishSource,
    /// What it becomes, and where.
    pub target: PublishTarget,
    /// The request goes this long after it is done. Left out: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// What is published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishSource {
    /// Its name. Left out: the request's own.
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

/// What it becomes, and where.
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
    /// Its name. Left out: the source's, with `-image` behind it.
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

/// How far a publication is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachinePublishRequestStatus {
    /// What is published, with everything that was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<PublishSource>,
    /// What it becomes, with everything that was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<PublishTarget>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When it was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// How often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
    /// When it was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Time>,
    /// The VirtualMachineImage it became.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_name: Option<String>,
    /// It is done, and its image is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How it is, aspect by aspect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
