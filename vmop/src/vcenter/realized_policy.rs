//! What a resource policy has come to in vCenter.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use vsphere::MoRef;

use super::Placement;

/// What a resource policy is below one home of its namespace: each zone has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealizedPolicy {
    /// The namespace's own folder and pool.
    pub namespace_placement: Placement,
    /// The policy's folder and pool.
    pub placement: Placement,
    /// The vSphere cluster of the pool.
    pub cluster: MoRef,
    /// The cluster modules, by group.
    pub modules: BTreeMap<String, String>,
}

impl RealizedPolicy {
    /// Whether the cluster can have modules: a single host can't.
    pub fn has_modules(&self) -> bool {
        self.cluster.kind() == "ClusterComputeResource"
    }
}

/// The policies that are realised, by `namespace/name`.
#[derive(Default)]
pub struct RealizedPolicies(Mutex<HashMap<String, Vec<RealizedPolicy>>>);

impl RealizedPolicies {
    /// All of a policy's, if it is realised.
    pub fn of(&self, key: &str) -> Option<Vec<RealizedPolicy>> {
        self.0.lock().get(key).cloned()
    }

    /// A policy's below that home.
    pub fn at(&self, key: &str, home: &Placement) -> Option<RealizedPolicy> {
        self.0.lock().get(key)?.iter().find(|realized| realized.namespace_placement == *home).cloned()
    }

    /// The policy has come to that. True if it is news.
    pub fn set(&self, key: &str, realized: Vec<RealizedPolicy>) -> bool {
        self.0.lock().insert(key.to_owned(), realized.clone()) != Some(realized)
    }

    /// The policy has to be realised (again). True if that is news.
    pub fn forget(&self, key: &str) -> bool {
        self.0.lock().remove(key).is_some()
    }
}
