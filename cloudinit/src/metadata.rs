//! Who a node is: the metadata that cloud-init reads and its templates refer to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bounds::{Budget, YamlError, from_yaml};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// Who a node is. Every key can be used in a template as `ds.meta_data.<key>`, with `-` written `_`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metadata {
    /// Another one makes cloud-init treat the next boot as a first boot.
    pub instance_id: String,
    /// The host name the node gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_hostname: Option<String>,
    /// As `local-hostname`, under the name that templates use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Where the cluster's API server answers, as `host:port`. Control plane nodes only.
    #[serde(rename = "controlPlaneEndpoint", default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// The host of that alone, for what holds the address itself, and what no proxy stands before.
    #[serde(rename = "controlPlaneHost", default, skip_serializing_if = "Option::is_none")]
    pub control_plane_host: Option<String>,
    /// The number of that address's virtual router (VRRP), 1 to 255.
    #[serde(rename = "virtualRouterID", default, skip_serializing_if = "Option::is_none")]
    pub virtual_router_id: Option<u8>,
    /// The node's providerID, known before the virtual machine exists.
    #[serde(rename = "provider_id", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Which of `userdata` and `vendordata` cloud-init takes out of guestinfo once it has read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// Which addresses the node waits for before its templates are rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_on_network: Option<WaitOnNetwork>,
    /// Anything else, such as `network`.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Which addresses a node waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitOnNetwork {
    /// It waits for an IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<bool>,
    /// It waits for an IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
}

impl Metadata {
    /// The metadata of a node: named so, with this providerID, redacting what is secret and waiting
    /// for an IPv4 address, because templates refer to it.
    pub fn of_node(name: &str, provider_id: &str) -> Self {
        Self {
            instance_id: name.to_owned(),
            local_hostname: Some(name.to_owned()),
            hostname: Some(name.to_owned()),
            provider_id: Some(provider_id.to_owned()),
            redact: vec!["userdata".to_owned(), "vendordata".to_owned()],
            wait_on_network: Some(WaitOnNetwork { ipv4: Some(true), ipv6: None }),
            ..Self::default()
        }
    }

    /// The same, of a node whose cluster answers at this host.
    #[must_use]
    pub fn with_control_plane_host(mut self, host: &str) -> Self {
        self.control_plane_host = Some(host.to_owned());
        self
    }

    /// The same, of a control plane node whose cluster answers at this host and port.
    #[must_use]
    pub fn with_control_plane_endpoint(mut self, host: &str, port: i32) -> Self {
        self.control_plane_endpoint = Some(format!("{host}:{port}"));
        self.control_plane_host = Some(host.to_owned());
        self.virtual_router_id = Some(virtual_router(host));
        self
    }

    /// The metadata as YAML, one key a line, in an order that never changes.
    pub fn to_yaml(&self) -> Result<String, Error> {
        let not_metadata = |error: serde_json::Error| Error::NotMetadata { reason: error.to_string() };
        let mut yaml = String::new();
        if let Value::Object(keys) = serde_json::to_value(self).map_err(not_metadata)? {
            for (key, value) in keys {
                // A JSON value is a YAML value, and is quoted where YAML would guess.
                let value = serde_json::to_string(&value).map_err(not_metadata)?;
                for part in [key.as_str(), ": ", value.as_str(), "\n"] {
                    yaml.push_str(part);
                }
            }
        }
        Ok(yaml)
    }

    /// Metadata out of YAML or JSON, within the budget.
    pub fn from_yaml(yaml: &str, budget: &Budget) -> Result<Self, Error> {
        from_yaml(yaml, budget).map_err(|error| match error {
            YamlError::Exceeded(exceeded) => exceeded.into(),
            invalid @ YamlError::Invalid { .. } => Error::NotMetadata { reason: format!("it {invalid}") },
        })
    }
}

/// The number of the virtual router that holds an address: the last one of the address, so that those of one network differ.
fn virtual_router(host: &str) -> u8 {
    let last = match host.parse() {
        Ok(IpAddr::V4(address)) => address.octets()[3],
        Ok(IpAddr::V6(address)) => address.octets()[15],
        Err(_) => host.bytes().fold(0, u8::wrapping_add),
    };
    last.max(1)
}

/// A mapping out of YAML or JSON, such as metadata or a network configuration, within the budget. The error quotes nothing.
pub fn mapping(yaml: &str, budget: &Budget) -> Result<serde_json::Map<String, Value>, Error> {
    from_yaml(yaml, budget).map_err(|error| match error {
        YamlError::Exceeded(exceeded) => exceeded.into(),
        invalid @ YamlError::Invalid { .. } => Error::NotMapping { reason: format!("it {invalid}") },
    })
}
