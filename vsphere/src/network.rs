//! A datacenter's networks and datastores.

use std::collections::HashMap;

use crate::spec::{filter_spec, object_spec, property_spec, traversal, unescape_name};
use crate::{Backing, Client, MoRef, ObjectContent, Result, Value};

/// A network in a datacenter.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub moref: MoRef,
    pub name: String,
    /// The UUID of the NSX segment (logical switch), if the network is an NSX segment.
    pub segment: Option<String>,
    /// The NIC backing that connects a NIC to the network.
    pub backing: Backing,
    /// True for uplink port groups, to which VMs can't be connected.
    pub is_uplink: bool,
}

/// A datastore in a datacenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datastore {
    pub moref: MoRef,
    pub name: String,
    /// The free space in bytes.
    pub free: u64,
    /// True if hosts can access the datastore.
    pub accessible: bool,
    /// True if the datastore isn't in maintenance mode.
    pub normal: bool,
}

impl Client {
    /// Returns a datacenter's port groups, distributed port groups and opaque networks. Makes up to two calls.
    pub async fn networks(&self, datacenter: &MoRef) -> Result<Vec<Network>> {
        let properties = vec![
            property_spec("Network", &["name"]),
            property_spec("DistributedVirtualPortgroup", &["name", "key", "tag", SWITCH, SEGMENT]),
            property_spec("OpaqueNetwork", &["name", "summary"]),
        ];
        let select = vec![traversal("Datacenter", "network", Vec::new())];
        let found = self
            .retrieve_spec(filter_spec(properties, vec![object_spec(datacenter, true, select)], false))
            .await?;
        let switches = self.read_switch_uuids(&found).await?;
        Ok(found.iter().filter_map(|network| read_network(network, &switches)).collect())
    }

    async fn read_switch_uuids(&self, networks: &[ObjectContent]) -> Result<HashMap<MoRef, String>> {
        let mut switches: Vec<MoRef> =
            networks.iter().filter_map(|network| network.get(SWITCH).as_moref().cloned()).collect();
        switches.sort_unstable();
        switches.dedup();
        if switches.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.retrieve(&switches, &["uuid"]).await?;
        Ok(found
            .into_iter()
            .filter_map(|switch| Some((switch.obj.clone(), text(switch.get("uuid"))?)))
            .collect())
    }

    /// Returns a datacenter's datastores. Makes one call.
    pub async fn list_datastores(&self, datacenter: &MoRef) -> Result<Vec<Datastore>> {
        let paths = ["name", "summary.freeSpace", "summary.accessible", "summary.maintenanceMode"];
        let found = self.retrieve_members(datacenter, "datastore", "Datastore", &paths).await?;
        Ok(found
            .into_iter()
            .map(|datastore| Datastore {
                name: unescape_name(datastore.get("name").as_str().unwrap_or_default()),
                free: datastore
                    .get("summary.freeSpace")
                    .as_i64()
                    .and_then(|free| free.try_into().ok())
                    .unwrap_or(0),
                accessible: datastore.get("summary.accessible").as_bool().unwrap_or(false),
                normal: datastore.get("summary.maintenanceMode").as_str().is_none_or(|mode| mode == "normal"),
                moref: datastore.obj,
            })
            .collect())
    }
}

/// The tag with which vCenter marks uplink port groups.
const UPLINKS: &str = "SYSTEM/DVS.UPLINKPG";
const SWITCH: &str = "config.distributedVirtualSwitch";
const SEGMENT: &str = "config.logicalSwitchUuid";

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn read_network(network: &ObjectContent, switches: &HashMap<MoRef, String>) -> Option<Network> {
    let name = unescape_name(network.get("name").as_str()?);
    let backing = match network.obj.kind() {
        "DistributedVirtualPortgroup" => Backing::Portgroup {
            switch_uuid: switches.get(network.get(SWITCH).as_moref()?)?.clone(),
            key: text(network.get("key"))?,
        },
        "OpaqueNetwork" => {
            let summary = network.get("summary");
            Backing::Opaque {
                id: text(summary.get("opaqueNetworkId"))?,
                kind: text(summary.get("opaqueNetworkType"))?,
            }
        }
        _ => Backing::Network { name: name.clone(), network: Some(network.obj.clone()) },
    };
    let segment = match &backing {
        Backing::Opaque { id, .. } => Some(id.clone()),
        _ => text(network.get(SEGMENT)).filter(|segment| !segment.is_empty()),
    };
    let is_uplink = network.get("tag").items().iter().any(|tag| tag.get("key").as_str() == Some(UPLINKS));
    Some(Network { moref: network.obj.clone(), name, segment, backing, is_uplink })
}
