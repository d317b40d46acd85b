//! What a resource policy has come to in vCenter.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use vsphere::MoRef;

use super::Place;

/// What a resource policy is below one home of its namespace: each zone has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realm {
    /// The namespace's own folder and pool.
    pub home: Place,
    /// The policy's folder and pool.
    pub place: Place,
    /// The vSphere cluster of the pool.
    pub cluster: MoRef,
    /// The cluster modules, by group.
    pub modules: BTreeMap<String, String>,
}

impl Realm {
    /// Whether the cluster can have modules: a single host can't.
    pub fn has_modules(&self) -> bool {
        self.cluster.kind() == "ClusterComputeResource"
    }
}

/// The policies that are realised, by `namespace/name`.
#[derive(Default)]
pub struct Realms(Mutex<HashMap<String, Vec<Realm>>>);

impl Realms {
    /// All of a policy's, if it is realised.
    pub fn of(&self, key: &str) -> Option<Vec<Realm>> {
        self.0.lock().get(key).cloned()
    }

    /// A policy's below that home.
    pub fn at(&self, key: &str, home: &Place) -> Option<Realm> {
        self.0.lock().get(key)?.iter().find(|realm| realm.home == *home).cloned()
    }

    /// The policy has come to that. True if it is news.
    pub fn set(&self, key: &str, realms: Vec<Realm>) -> bool {
        self.0.lock().insert(key.to_owned(), realms.clone()) != Some(realms)
    }

    /// The policy has to be realised (again). True if that is news.
    pub fn forget(&self, key: &str) -> bool {
        self.0.lock().remove(key).is_some()
    }
}
