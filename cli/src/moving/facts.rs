//! The facts about a management cluster on which a move depends.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::ProviderConfiguration;
use serde_json::Value;

/// The facts about one management cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The UID that identifies the management cluster: that of namespace `kube-system`.
    pub uid: String,
    /// The kinds that clusterctl moves, with their schemas.
    pub kinds: BTreeMap<String, Value>,
    /// The VM operator's provider configuration.
    pub configuration: Option<ProviderConfiguration>,
    /// The installation's id, which marks its VMs.
    pub stack_id: Option<String>,
    /// The TanzuKubernetesReleases' names.
    pub releases: BTreeSet<String>,
    /// The namespaces that contain clusters' objects.
    pub namespaces: BTreeMap<String, MovedNamespace>,
}

/// The clusters in one namespace, and their objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MovedNamespace {
    /// The UID of the management cluster from which `layercake move` has begun to copy clusters to this namespace.
    pub origin: Option<String>,
    pub clusters: BTreeMap<String, ClusterFacts>,
    /// The clusters' objects, and the cluster to which each belongs.
    pub objects: BTreeMap<MovedKey, MovedObject>,
    /// The VMs' BIOS UUIDs. Machines have them in their specs, so that copies have them, too.
    pub vms: BTreeSet<String>,
    /// PersistentVolumeClaims for programs in the clusters.
    pub claims: BTreeSet<String>,
    /// Objects that clusterctl doesn't move, by kind.
    pub others: BTreeMap<String, BTreeSet<String>>,
}

/// An object's kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovedKey {
    pub kind: String,
    pub name: String,
}

impl std::fmt::Display for MovedKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// A cluster's object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedObject {
    /// The cluster's name.
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
    /// The API server's address and port.
    pub endpoint: Option<String>,
    /// The TanzuKubernetesRelease's name.
    pub release: Option<String>,
    pub is_tanzu_kubernetes_cluster: bool,
    /// True if the Cluster exists.
    pub has_cluster: bool,
    /// True if gcm in another management cluster created the Cluster for the TanzuKubernetesCluster.
    pub is_made_elsewhere: bool,
}

/// A Cluster's pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    #[default]
    None,
    /// clusterctl paused it for a move.
    ByMove,
    /// A user or another tool paused it.
    ByOthers,
}
