//! The handshake with the storage provider, group `cns.vmware.com`: a volume is asked to be attached to a
//! virtual machine, and vSphere CSI's part in the Supervisor does it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume that shall be attached to a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cns.vmware.com",
    version = "v1alpha1",
    kind = "CnsNodeVmAttachment",
    namespaced,
    status = "CnsNodeVmAttachmentStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A request to attach a volume to a virtual machine."
)]
#[serde(default)]
#[schemars(extend("required" = ["nodeuuid", "volumename"]))]
pub struct CnsNodeVmAttachmentSpec {
    /// The virtual machine, by its BIOS UUID.
    #[serde(rename = "nodeuuid")]
    pub node_uuid: String,
    /// The PersistentVolumeClaim, in the same namespace.
    #[serde(rename = "volumename")]
    pub volume_name: String,
}

/// The observed state of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["attached"]))]
pub struct CnsNodeVmAttachmentStatus {
    /// The volume is attached.
    pub attached: bool,
    /// Metadata of the attachment: the identity of the volume and, once it is attached, the UUID of its disk.
    #[serde(rename = "metadata", skip_serializing_if = "BTreeMap::is_empty")]
    pub attachment_metadata: BTreeMap<String, String>,
    /// Why it could not be attached or detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The key of [`CnsNodeVmAttachmentStatus::attachment_metadata`] with the disk's UUID.
pub const DISK_UUID: &str = "diskUUID";
