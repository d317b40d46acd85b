//! WebConsoleRequest: a ticket to a virtual machine's console, for whoever holds a key.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A ticket to a virtual machine's console, asked for once.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "WebConsoleRequest",
    namespaced,
    status = "WebConsoleRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A request for a ticket to the console of a virtual machine."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["virtualMachineName", "publicKey"]))]
pub struct WebConsoleRequestSpec {
    /// The VirtualMachine, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub virtual_machine_name: String,
    /// The RSA key, in PEM, of 2048 to 8192 bits, that the ticket is encrypted with.
    #[schemars(length(min = 1, max = 16384))]
    pub public_key: String,
}

/// The ticket, once it exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebConsoleRequestStatus {
    /// The URL with the ticket, encrypted with the key (RSA-OAEP, SHA-512), in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// When the ticket expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_time: Option<Time>,
    /// The address of the console proxy, with a port if the proxy has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_addr: Option<String>,
}
