//! vSphere zones, group `topology.tanzu.vmware.com`: which clusters, pools and folders are where.
//!
//! The Supervisor makes these objects; here are the fields that are read.

use std::collections::{BTreeMap, BTreeSet};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A zone of the whole Supervisor.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "topology.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "AvailabilityZone",
    shortname = "az",
    status = "ZoneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A zone of the whole Supervisor."
)]
#[serde(rename_all = "camelCase", default)]
pub struct AvailabilityZoneSpec {
    /// The clusters, by vCenter's identity of them.
    #[serde(rename = "clusterComputeResourceMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub cluster_mo_ids: Vec<String>,
    /// The cluster, where there is one.
    #[serde(rename = "clusterComputeResourceMoId", skip_serializing_if = "Option::is_none")]
    pub cluster_mo_id: Option<String>,
    /// Folder and pools of each namespace in this zone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, NamespaceInfo>,
}

/// Folder and pools of a namespace in a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceInfo {
    /// The folder.
    #[serde(rename = "folderMoId", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// The pools, one for each cluster.
    #[serde(rename = "poolMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub pool_mo_ids: Vec<String>,
    /// The pool, where there is one.
    #[serde(rename = "poolMoId", skip_serializing_if = "Option::is_none")]
    pub pool_mo_id: Option<String>,
}

/// A zone that a namespace may use.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "topology.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "Zone",
    namespaced,
    status = "ZoneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A zone that a namespace can use."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["availabilityZoneReference"]))]
pub struct ZoneSpec {
    /// The AvailabilityZone it is a part of.
    pub availability_zone_reference: AvailabilityZoneReference,
    /// The placement of the namespace itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ZonePlace>,
    /// The placement of virtual machines that other components manage, such as the nodes of clusters.
    #[serde(rename = "managedVMs", skip_serializing_if = "Option::is_none")]
    pub managed_vms: Option<ZonePlace>,
}

/// The name of an AvailabilityZone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "name"]))]
pub struct AvailabilityZoneReference {
    /// `topology.tanzu.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// The name.
    pub name: String,
}

/// Folder, pools and clusters in a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZonePlace {
    /// The folder.
    #[serde(rename = "folderMoID", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// The pools.
    #[serde(rename = "poolMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub pool_mo_ids: Vec<String>,
    /// The clusters.
    #[serde(rename = "clusterMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub cluster_mo_ids: Vec<String>,
}

/// Nothing of a zone's status is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneStatus {}

/// Returns the zones in which a namespace has a folder and a pool, by name: its own Zones, and AvailabilityZones that name it.
///
/// A virtual machine can be placed in each of them. There are none where vSphere has no zones.
pub fn zones_of<'z>(
    namespace: &str,
    own: impl IntoIterator<Item = &'z Zone>,
    wide: impl IntoIterator<Item = &'z AvailabilityZone>,
) -> BTreeSet<String> {
    let own = own.into_iter().filter(|zone| has_place(zone)).filter_map(|zone| zone.metadata.name.clone());
    let is_of = |zone: &&AvailabilityZone| zone.spec.namespaces.get(namespace).is_some_and(is_place);
    let wide = wide.into_iter().filter(is_of).filter_map(|zone| zone.metadata.name.clone());
    own.chain(wide).collect()
}

fn has_place(zone: &Zone) -> bool {
    let place = zone.spec.managed_vms.as_ref().or(zone.spec.namespace.as_ref());
    place.is_some_and(|place| {
        is_given(place.folder_mo_id.as_ref()) && place.pool_mo_ids.iter().any(|id| !id.is_empty())
    })
}

fn is_place(info: &NamespaceInfo) -> bool {
    is_given(info.folder_mo_id.as_ref())
        && info.pool_mo_ids.iter().chain(&info.pool_mo_id).any(|id| !id.is_empty())
}

fn is_given(id: Option<&String>) -> bool {
    id.is_some_and(|id| !id.is_empty())
}
