//! Resource policies as they are realized in vCenter.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use vsphere::MoRef;

use crate::vcenter::placement::Placement;

/// A resource policy below one folder and pool of its namespace: each zone has one.
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

/// The policies that are realized, by `namespace/name`.
#[derive(Default)]
pub struct RealizedPolicies(Mutex<HashMap<String, Entry>>);

struct Entry {
    realized: Vec<RealizedPolicy>,
    /// vCenter may have been restored from a backup since.
    doubted: bool,
}

impl RealizedPolicies {
    /// All of a policy's, if it is realized.
    pub fn of(&self, key: &str) -> Option<Vec<RealizedPolicy>> {
        self.0.lock().get(key).map(|entry| entry.realized.clone())
    }

    /// All of a policy's, if it is realized and nothing speaks for another look.
    pub fn undoubted(&self, key: &str) -> Option<Vec<RealizedPolicy>> {
        self.0.lock().get(key).filter(|entry| !entry.doubted).map(|entry| entry.realized.clone())
    }

    /// Has every policy looked at again; VMs go on with what is known of it meanwhile.
    pub fn doubt_all(&self) {
        self.0.lock().values_mut().for_each(|entry| entry.doubted = true);
    }

    /// The policy below that folder and pool of its namespace.
    pub fn at(&self, key: &str, namespace_placement: &Placement) -> Option<RealizedPolicy> {
        self.0
            .lock()
            .get(key)?
            .realized
            .iter()
            .find(|realized| realized.namespace_placement == *namespace_placement)
            .cloned()
    }

    /// Keeps what the policy is realized as. True if it is news.
    pub fn set(&self, key: &str, realized: Vec<RealizedPolicy>) -> bool {
        let mut all = self.0.lock();
        let is_news = all.get(key).is_none_or(|entry| entry.realized != realized);
        all.insert(key.to_owned(), Entry { realized, doubted: false });
        is_news
    }

    /// Has the policy realized again. True if that is news.
    pub fn forget(&self, key: &str) -> bool {
        self.0.lock().remove(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_is_doubted_is_known_and_looked_at_again() {
        let policies = RealizedPolicies::default();
        assert!(policies.set("ns/p", Vec::new()));
        assert!(policies.undoubted("ns/p").is_some());
        policies.doubt_all();
        assert!(policies.of("ns/p").is_some() && policies.undoubted("ns/p").is_none());
        assert!(!policies.set("ns/p", Vec::new()), "it is no news");
        assert!(policies.undoubted("ns/p").is_some());
    }
}
