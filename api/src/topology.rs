//! vSphere zones, API group `topology.tanzu.vmware.com`: the clusters, resource pools and folders in each zone.
//!
//! The Supervisor creates these objects. The types contain only the fields that Layercake reads.

use std::collections::{BTreeMap, BTreeSet};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Zone for the whole Supervisor.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "topology.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "AvailabilityZone",
    shortname = "az",
    status = "ZoneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Zone for the whole Supervisor."
)]
#[serde(rename_all = "camelCase", default)]
pub struct AvailabilityZoneSpec {
    /// Managed object IDs of the vSphere clusters.
    #[serde(rename = "clusterComputeResourceMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub cluster_mo_ids: Vec<String>,
    /// vSphere cluster managed object ID, if there is only one.
    #[serde(rename = "clusterComputeResourceMoId", skip_serializing_if = "Option::is_none")]
    pub cluster_mo_id: Option<String>,
    /// Folder and resource pools for each namespace in this zone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, NamespaceInfo>,
}

/// Folder and resource pools for a namespace in a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceInfo {
    /// Folder managed object ID.
    #[serde(rename = "folderMoId", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// Resource pool managed object IDs, one for each vSphere cluster.
    #[serde(rename = "poolMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub pool_mo_ids: Vec<String>,
    /// Resource pool managed object ID, if there is only one.
    #[serde(rename = "poolMoId", skip_serializing_if = "Option::is_none")]
    pub pool_mo_id: Option<String>,
}

/// Zone that a namespace can use.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "topology.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "Zone",
    namespaced,
    status = "ZoneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Zone that a namespace can use."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["availabilityZoneReference"]))]
pub struct ZoneSpec {
    /// AvailabilityZone that the zone belongs to.
    pub availability_zone_reference: AvailabilityZoneReference,
    /// Placement of the namespace itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ZonePlace>,
    /// Placement of virtual machines that other components manage, such as cluster nodes.
    #[serde(rename = "managedVMs", skip_serializing_if = "Option::is_none")]
    pub managed_vms: Option<ZonePlace>,
}

/// Reference to an AvailabilityZone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "name"]))]
pub struct AvailabilityZoneReference {
    /// API version: `topology.tanzu.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// AvailabilityZone name.
    pub name: String,
}

/// Folder, resource pools and vSphere clusters in a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZonePlace {
    /// Folder managed object ID.
    #[serde(rename = "folderMoID", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// Resource pool managed object IDs.
    #[serde(rename = "poolMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub pool_mo_ids: Vec<String>,
    /// vSphere cluster managed object IDs.
    #[serde(rename = "clusterMoIDs", skip_serializing_if = "Vec::is_empty")]
    pub cluster_mo_ids: Vec<String>,
}

/// Observed zone state. Layercake doesn't read any of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneStatus {}

/// Returns the names of the zones in which a namespace has a folder and a resource pool: its own Zones, and
/// AvailabilityZones that list it.
///
/// A virtual machine can be placed in each of them. Without vSphere zones, the result is empty.
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
