//! What a control plane on vSphere has beside the VM operator: networks, interfaces, storage.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::addresses::Subnet;
use crate::control::ControlApi;
use crate::interface::Interfaces;
use crate::network::Network;
use crate::storage::Storage;
use crate::vcenter::VcenterEndpoint;

/// The site's providers at work for one control plane; dropping them ends them.
#[derive(Debug)]
pub struct Providers {
    _network: Network,
    _interfaces: Interfaces,
    _storage: Storage,
}

impl Providers {
    /// Starts serving the control plane behind `client`.
    pub fn serving(
        client: &Client,
        subnet: &Subnet,
        vcenter: &VcenterEndpoint,
        control: &ControlApi,
    ) -> Self {
        Self {
            _network: Network::serving(client.clone(), subnet.clone()),
            _interfaces: Interfaces::serving(client.clone(), subnet.clone(), Networks::of(vcenter)),
            _storage: Storage::serving(client.clone(), control.clone()),
        }
    }
}

/// The networks that interfaces can be on.
#[derive(Clone, Debug)]
pub(crate) struct Networks {
    /// MoIDs by name.
    pub port_groups: BTreeMap<String, String>,
    /// The one of interfaces that name none.
    pub default: String,
    /// NSX's UUID of the segment that stands for every VirtualNetwork.
    pub segment: Option<String>,
}

impl Networks {
    fn of(vcenter: &VcenterEndpoint) -> Self {
        Self {
            port_groups: vcenter.networks.clone(),
            default: vcenter.network.clone(),
            segment: vcenter.segments.values().next().cloned(),
        }
    }
}

/// A condition in the shape of Cluster API v1beta1.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

/// Whether an object has a condition of that type, status and message; `None` stands for any message.
pub(crate) fn has_condition(
    object: &DynamicObject,
    type_: &str,
    status: &str,
    message: Option<&str>,
) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == type_
            && condition["status"] == status
            && message.is_none_or(|message| condition["message"] == message)
    })
}

/// `namespace/name`.
pub(crate) fn key(object: &DynamicObject) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
