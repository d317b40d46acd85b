//! ProviderServiceAccount: permissions in the management cluster for a program in a workload cluster.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Permissions in the management cluster for a program in a workload cluster, such as its cloud provider.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "ProviderServiceAccount",
    namespaced,
    status = "ProviderServiceAccountStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Permissions in the management cluster for a program in a workload cluster, such as its cloud provider.",
    printcolumn(name = "WCPCluster", type_ = "string", json_path = ".spec.ref.name"),
    printcolumn(name = "TargetNamespace", type_ = "string", json_path = ".spec.targetNamespace"),
    printcolumn(name = "TargetSecretName", type_ = "string", json_path = ".spec.targetSecretName")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["ref", "rules", "targetNamespace", "targetSecretName"]))]
pub struct ProviderServiceAccountSpec {
    /// WCPCluster whose workload cluster gets the account.
    pub r#ref: ObjectReference,
    /// RBAC rules that grant permissions in the account's namespace.
    pub rules: Vec<PolicyRule>,
    /// Namespace in the workload cluster that gets the token.
    pub target_namespace: String,
    /// Secret in the workload cluster that gets the token.
    pub target_secret_name: String,
}

/// Observed account state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderServiceAccountStatus {
    /// True if the token is in the workload cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Reason why the token isn't in the workload cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Account conditions, which report the token's state in the workload cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
