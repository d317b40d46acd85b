//! The kinds of the infrastructure provider `wcp`, API group `infrastructure.cluster.vmware.com`.
//!
//! They implement Cluster API's v1beta2 contract: `status.initialization.provisioned`, `spec.providerID`,
//! `spec.controlPlaneEndpoint` and Kubernetes conditions.

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
/// The API version of the WCP kinds. It implements the Cluster API contract with the same name.
pub const VERSION: &str = "v1beta2";

/// Labels and annotations for objects that are created from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMeta {
    /// Labels for the created objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the created objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// API server endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["host", "port"]))]
pub struct ApiEndpoint {
    /// IP address or host name.
    pub host: String,
    /// Port number.
    pub port: i32,
}

/// Initial provisioning. Cluster API waits for it and ignores later changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialization {
    /// True if the infrastructure is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}
