//! The state of a management cluster, as far as a move depends on it.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::ProviderConfiguration;
use serde_json::Value;

/// The state of one management cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The schema of each kind that clusterctl moves.
    pub kinds: BTreeMap<String, Value>,
    /// The provider configuration of the VM operator.
    pub configuration: Option<ProviderConfiguration>,
    /// The id of the installation, with which its VMs are marked.
    pub stack_id: Option<String>,
    /// The names of the TanzuKubernetesReleases.
    pub releases: BTreeSet<String>,
    /// The namespaces with objects of clusters.
    pub namespaces: BTreeMap<String, NamespaceFacts>,
}

/// The objects of clusters in one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceFacts {
    pub clusters: BTreeMap<String, ClusterFacts>,
    /// The clusters' objects, and the cluster to which each belongs.
    pub objects: BTreeMap<ObjectKey, MovedObject>,
    /// The BIOS UUIDs of the VMs. They are in the specs of Machines, so that copies have them, too.
    pub vms: BTreeSet<String>,
    /// PersistentVolumeClaims of programs in the clusters.
    pub claims: BTreeSet<String>,
    /// Objects of the namespace that clusterctl doesn't move, by kind.
    pub others: BTreeMap<String, BTreeSet<String>>,
}

/// The kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    pub kind: String,
    pub name: String,
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// An object of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedObject {
    /// The name of the cluster.
    pub cluster: String,
    /// True if clusterctl has marked the object for deletion, because its copy exists.
    pub is_marked: bool,
    /// The reason why the object can't be moved yet, if there is one.
    pub obstacle: Option<String>,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    pub pause: Pause,
    /// The address of the API server, with the port.
    pub endpoint: Option<String>,
    /// The name of the TanzuKubernetesRelease.
    pub release: Option<String>,
    pub is_tanzu_kubernetes_cluster: bool,
    /// True if the Cluster exists.
    pub has_cluster: bool,
    /// True if gcm of another management cluster created the Cluster for the TanzuKubernetesCluster.
    pub is_made_elsewhere: bool,
}

/// The pause of a Cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    #[default]
    None,
    /// clusterctl paused it for a move.
    ByMove,
    /// A user or another tool paused it.
    ByOthers,
}
