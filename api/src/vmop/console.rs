//! WebConsoleRequest: a request for an encrypted ticket to a virtual machine's console.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Request for a ticket to a virtual machine's console. Immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "WebConsoleRequest",
    namespaced,
    status = "WebConsoleRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Request for a ticket to a virtual machine's console. Immutable."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["virtualMachineName", "publicKey"]))]
pub struct WebConsoleRequestSpec {
    /// VirtualMachine name, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub virtual_machine_name: String,
    /// RSA public key with which the ticket is encrypted, in PEM format, 2048 to 8192 bits.
    #[schemars(length(min = 1, max = 16384))]
    pub public_key: String,
}

/// Observed console request state: the ticket, once it exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebConsoleRequestStatus {
    /// Console URL with the ticket, encrypted with the public key (RSA-OAEP, SHA-512) and base64-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Time at which the ticket expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_time: Option<Time>,
    /// Address of the console proxy, with a port if the proxy uses a non-default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_addr: Option<String>,
}
