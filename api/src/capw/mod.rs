//! The kinds of the infrastructure provider `wcp`, group `infrastructure.cluster.vmware.com`.
//!
//! They keep the contract v1beta2 of Cluster API: `status.initialization.provisioned`,
//! `spec.providerID`, `spec.controlPlaneEndpoint` and conditions in the shape of Kubernetes itself.

mod account;
mod cluster;
mod machine;

pub use account::{ProviderServiceAccount, ProviderServiceAccountSpec, ProviderServiceAccountStatus};
pub use cluster::{
    FailureDomain, WCPCluster, WCPClusterSpec, WCPClusterStatus, WCPClusterTemplate,
    WCPClusterTemplateResource, WCPClusterTemplateSpec,
};
pub use machine::{
    MachineAddress, MachineVolume, NodeInfo, VirtualMachineNaming, WCPMachine, WCPMachineSpec,
    WCPMachineStatus, WCPMachineTemplate, WCPMachineTemplateResource, WCPMachineTemplateSpec,
    WCPMachineTemplateStatus, vm_status,
};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of the WCP kinds.
pub const GROUP: &str = crate::names::INFRASTRUCTURE_GROUP;
/// The API version of the WCP kinds; it carries the contract of the same name.
pub const VERSION: &str = "v1beta2";

/// Labels and annotations of what is made from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMeta {
    /// Labels of the created objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the created objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An endpoint of an API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["host", "port"]))]
pub struct ApiEndpoint {
    /// The address or name.
    pub host: String,
    /// The port.
    pub port: i32,
}

/// Reports the first provisioning. Cluster API waits for it, and ignores later changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialization {
    /// The infrastructure is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}
