//! Node metadata, which cloud-init reads and templates refer to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bounds::{Budget, YamlError, from_yaml};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// A node's metadata. Templates refer to a key as `ds.meta_data.<key>`, with `_` instead of `-`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NodeMetadata {
    /// The instance ID. After a change, cloud-init treats the next boot as a first boot.
    pub instance_id: String,
    /// The host name that the node sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_hostname: Option<String>,
    /// The same as `local-hostname`, under the name that templates use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The API server's endpoint as `host:port`. Set only for control plane nodes.
    #[serde(rename = "controlPlaneEndpoint", default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// The API server's host without the port, for the virtual IP configuration and for `NO_PROXY`.
    #[serde(rename = "controlPlaneHost", default, skip_serializing_if = "Option::is_none")]
    pub control_plane_host: Option<String>,
    /// The VRRP virtual router ID for the API server's address, 1 to 255.
    #[serde(rename = "virtualRouterID", default, skip_serializing_if = "Option::is_none")]
    pub virtual_router_id: Option<u8>,
    /// The node's provider ID, which is known before the virtual machine exists.
    #[serde(rename = "provider_id", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The values (`userdata`, `vendordata`) that cloud-init must redact in guestinfo after it has read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// The address families that cloud-init waits for before it renders templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_on_network: Option<WaitOnNetwork>,
    /// All other keys, such as `network`.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The address families that cloud-init waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitOnNetwork {
    /// True to wait for an IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<bool>,
    /// True to wait for an IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
}

impl NodeMetadata {
    /// Creates a node's metadata. `name` becomes the instance ID and the host name.
    ///
    /// The metadata tells cloud-init to redact the secrets after it has read them, and to wait for an IPv4 address,
    /// because templates refer to that address.
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

    /// Sets the API server's host.
    #[must_use]
    pub fn with_control_plane_host(mut self, host: &str) -> Self {
        self.control_plane_host = Some(host.to_owned());
        self
    }

    /// Sets the API server's endpoint and host. Use this only for control plane nodes.
    #[must_use]
    pub fn with_control_plane_endpoint(mut self, host: &str, port: i32) -> Self {
        self.control_plane_endpoint = Some(format!("{host}:{port}"));
        self.control_plane_host = Some(host.to_owned());
        self
    }

    /// Sets the VRRP virtual router ID that follows from the API server's host. Use this only for control plane nodes of a
    /// cluster that wasn't assigned an ID.
    #[must_use]
    pub fn with_virtual_router_of(self, host: &str) -> Self {
        self.with_virtual_router(virtual_router(host))
    }

    /// Sets the VRRP virtual router ID, 1 to 255. Use this only for control plane nodes.
    #[must_use]
    pub fn with_virtual_router(mut self, id: u8) -> Self {
        self.virtual_router_id = Some(id);
        self
    }

    /// Returns the metadata as YAML, with one key per line in a stable order.
    pub fn to_yaml(&self) -> Result<String, Error> {
        let not_metadata = |error: serde_json::Error| Error::NotMetadata { reason: error.to_string() };
        let mut yaml = String::new();
        if let Value::Object(keys) = serde_json::to_value(self).map_err(not_metadata)? {
            for (key, value) in keys {
                // JSON is valid YAML, and quotes strings that YAML would read as other types.
                let value = serde_json::to_string(&value).map_err(not_metadata)?;
                for part in [key.as_str(), ": ", value.as_str(), "\n"] {
                    yaml.push_str(part);
                }
            }
        }
        Ok(yaml)
    }

    /// Parses YAML or JSON metadata within the budget.
    pub fn from_yaml(yaml: &str, budget: &Budget) -> Result<Self, Error> {
        from_yaml(yaml, budget).map_err(|error| match error {
            YamlError::Exceeded(exceeded) => exceeded.into(),
            invalid @ YamlError::Invalid { .. } => Error::NotMetadata { reason: format!("it {invalid}") },
        })
    }
}

/// Returns the virtual router ID for a cluster that wasn't assigned an ID: the last byte of the IP address `host`, or a
/// checksum if `host` is a host name. The ID is at least 1.
fn virtual_router(host: &str) -> u8 {
    let last = match host.parse() {
        Ok(IpAddr::V4(address)) => address.octets()[3],
        Ok(IpAddr::V6(address)) => address.octets()[15],
        Err(_) => host.bytes().fold(0, u8::wrapping_add),
    };
    last.max(1)
}

/// Parses a YAML or JSON mapping, such as metadata or a network configuration, within the budget. Errors don't quote
/// the input.
pub fn mapping(yaml: &str, budget: &Budget) -> Result<serde_json::Map<String, Value>, Error> {
    from_yaml(yaml, budget).map_err(|error| match error {
        YamlError::Exceeded(exceeded) => exceeded.into(),
        invalid @ YamlError::Invalid { .. } => Error::NotMapping { reason: format!("it {invalid}") },
    })
}
