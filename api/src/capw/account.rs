//! ProviderServiceAccount: rights in the management cluster for a program in the guest.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rights in the management cluster for a program in the guest, such as its cloud provider.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "ProviderServiceAccount",
    namespaced,
    status = "ProviderServiceAccountStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Rights in the management cluster for a program in the guest.",
    printcolumn(name = "WCPCluster", type_ = "string", json_path = ".spec.ref.name"),
    printcolumn(name = "TargetNamespace", type_ = "string", json_path = ".spec.targetNamespace"),
    printcolumn(name = "TargetSecretName", type_ = "string", json_path = ".spec.targetSecretName")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["ref", "rules", "targetNamespace", "targetSecretName"]))]
pub struct ProviderServiceAccountSpec {
    /// The WCPCluster whose guest gets the account.
    pub r#ref: ObjectReference,
    /// The rights of the account in its namespace.
    pub rules: Vec<PolicyRule>,
    /// The guest's namespace that gets the token.
    pub target_namespace: String,
    /// The guest's Secret that gets the token.
    pub target_secret_name: String,
}

/// The observed state of the account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderServiceAccountStatus {
    /// The token is in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Why the token is not in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Conditions: whether the token is in the guest, and if not, why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
