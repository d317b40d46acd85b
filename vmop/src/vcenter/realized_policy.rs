//! The resource policies that are realized in vCenter.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use vsphere::MoRef;

use crate::vcenter::placement::Placement;

/// A resource policy that is realized in one of its namespace's placements. A namespace with zones has several placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealizedPolicy {
    /// The namespace's folder and pool.
    pub namespace_placement: Placement,
    /// The policy's folder and pool.
    pub placement: Placement,
    /// The vSphere cluster that owns the pool.
    pub cluster: MoRef,
    /// The cluster module ids by group.
    pub modules: BTreeMap<String, String>,
}

impl RealizedPolicy {
    /// Returns true if the cluster can have modules. A standalone host can't.
    pub fn has_modules(&self) -> bool {
        self.cluster.kind() == "ClusterComputeResource"
    }
}

/// The realized policies by `namespace/name`.
#[derive(Default)]
pub struct RealizedPolicies(Mutex<HashMap<String, Entry>>);

struct Entry {
    realized: Vec<RealizedPolicy>,
    /// True if vCenter may have been restored from a backup since the policy was realized.
    doubted: bool,
}

impl RealizedPolicies {
    /// Returns the policy's realizations, if it is realized.
    pub fn of(&self, key: &str) -> Option<Vec<RealizedPolicy>> {
        self.0.lock().get(key).map(|entry| entry.realized.clone())
    }

    /// Returns the policy's realizations, if it is realized and needn't be checked again.
    pub fn undoubted(&self, key: &str) -> Option<Vec<RealizedPolicy>> {
        self.0.lock().get(key).filter(|entry| !entry.doubted).map(|entry| entry.realized.clone())
    }

    /// Requires that every policy is checked again. Until then, VMs use the known realizations.
    pub fn doubt_all(&self) {
        self.0.lock().values_mut().for_each(|entry| entry.doubted = true);
    }

    /// Returns the policy's realization in that namespace folder and pool, if there is one.
    pub fn at(&self, key: &str, namespace_placement: &Placement) -> Option<RealizedPolicy> {
        self.0
            .lock()
            .get(key)?
            .realized
            .iter()
            .find(|realized| realized.namespace_placement == *namespace_placement)
            .cloned()
    }

    /// Sets the policy's realizations. Returns true if they changed.
    pub fn set(&self, key: &str, realized: Vec<RealizedPolicy>) -> bool {
        let mut all = self.0.lock();
        let is_news = all.get(key).is_none_or(|entry| entry.realized != realized);
        all.insert(key.to_owned(), Entry { realized, doubted: false });
        is_news
    }

    /// Discards the policy's realizations. Returns true if there were any.
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
