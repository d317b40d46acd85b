//! TkgServiceConfiguration: defaults for settings that a cluster's spec doesn't contain.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::{Proxy, Trust};

/// The only valid name for a TkgServiceConfiguration.
pub const SERVICE_CONFIGURATION: &str = "tkg-service-configuration";

/// Defaults for new clusters. The only object is tkg-service-configuration.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha3",
    kind = "TkgServiceConfiguration",
    plural = "tkgserviceconfigurations",
    derive = "Default",
    derive = "PartialEq",
    doc = "Defaults for new clusters. The only object is tkg-service-configuration.",
    printcolumn(name = "Default CNI", type_ = "string", json_path = ".spec.defaultCNI")
)]
#[serde(rename_all = "camelCase", default)]
pub struct TkgServiceConfigurationSpec {
    /// Default container network: `antrea`, `calico`, `antrea-nsx-routed` or `flannel`.
    #[serde(rename = "defaultCNI", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub default_cni: Option<String>,
    /// Default proxy for nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Default certificate authorities that nodes trust in addition to public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Default maximum time to drain a node, such as `10m`. 0 or unset means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub default_node_drain_timeout: Option<String>,
}
