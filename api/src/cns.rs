//! CnsNodeVmAttachment, API group `cns.vmware.com`: a request to attach a volume to a virtual machine. The vSphere CSI
//! driver in the Supervisor carries it out.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Request to attach a volume to a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cns.vmware.com",
    version = "v1alpha1",
    kind = "CnsNodeVmAttachment",
    namespaced,
    status = "CnsNodeVmAttachmentStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Request to attach a volume to a virtual machine."
)]
#[serde(default)]
#[schemars(extend("required" = ["nodeuuid", "volumename"]))]
pub struct CnsNodeVmAttachmentSpec {
    /// BIOS UUID of the virtual machine.
    #[serde(rename = "nodeuuid")]
    pub node_uuid: String,
    /// PersistentVolumeClaim name, in the same namespace.
    #[serde(rename = "volumename")]
    pub volume_name: String,
}

/// Observed attachment state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["attached"]))]
pub struct CnsNodeVmAttachmentStatus {
    /// True if the volume is attached.
    pub attached: bool,
    /// Attachment metadata: the volume ID and, after the attachment, the disk UUID.
    #[serde(rename = "metadata", skip_serializing_if = "BTreeMap::is_empty")]
    pub attachment_metadata: BTreeMap<String, String>,
    /// Error that prevents the volume from being attached or detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The key with the disk UUID in [`CnsNodeVmAttachmentStatus::attachment_metadata`].
pub const DISK_UUID: &str = "diskUUID";
