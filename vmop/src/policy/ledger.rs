//! Which cluster modules are a policy's own: known from nothing but what was written down.
//!
//! A module has no name, so nothing in vCenter says whose it is. Before one is made, the policy's
//! annotation says which modules there are; afterwards, which one was made. After a crash between the
//! two, those that have appeared since, are empty and nobody's, are ours: they are as good as new. The
//! annotation travels when objects are moved to another cluster, which a status does not.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use vsphere::automation::ClusterModule;

/// The annotation.
pub const ANNOTATION: &str = "vmoperator.vmware.com/cluster-modules";
/// Of an id of a module, this much tells it from others.
const SHORT: usize = 8;

/// A group of a policy in one vSphere cluster: it has one module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// MoID of the cluster.
    pub cluster: String,
    /// The group.
    pub group: String,
}

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The modules that are ours: by cluster, by group.
    pub modules: BTreeMap<String, BTreeMap<String, String>>,
    /// While some are being made: the modules that there were before, by the beginning of their ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<BTreeSet<String>>,
}

impl Ledger {
    /// What the policy's annotation says; without one, what its status does.
    pub fn read(policy: &VirtualMachineSetResourcePolicy) -> Self {
        let written = policy.annotations().get(ANNOTATION);
        if let Some(ledger) = written.and_then(|text| serde_json::from_str(text).ok()) {
            return ledger;
        }
        let mut ledger = Self::default();
        let shown = policy.status.iter().flat_map(|status| &status.cluster_modules);
        for module in shown.filter(|module| !module.module_uuid.is_empty()) {
            let slot = Slot { cluster: module.cluster_mo_id.clone(), group: module.group_name.clone() };
            ledger.enter(slot, module.module_uuid.clone());
        }
        ledger
    }

    /// The annotation's text.
    pub fn text(&self) -> String {
        // Maps and sets of text can't fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The module of a slot.
    pub fn module(&self, slot: &Slot) -> Option<&String> {
        self.modules.get(&slot.cluster)?.get(&slot.group)
    }

    /// The module is that slot's.
    pub fn enter(&mut self, slot: Slot, id: String) {
        self.modules.entry(slot.cluster).or_default().insert(slot.group, id);
    }

    /// The ids of all modules that are ours.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.modules.values().flat_map(BTreeMap::values)
    }

    /// Modules that vCenter does not have (any more) are nobody's.
    pub fn keep(&mut self, there: &[ClusterModule]) {
        for (cluster, groups) in &mut self.modules {
            groups.retain(|_, id| there.iter().any(|module| module.id == *id && module.cluster == *cluster));
        }
        self.modules.retain(|_, groups| !groups.is_empty());
    }

    /// The wanted slots that have no module.
    pub fn missing(&self, wanted: &BTreeSet<Slot>) -> Vec<Slot> {
        wanted.iter().filter(|slot| self.module(slot).is_none()).cloned().collect()
    }

    /// Modules are about to be made, and these are there.
    pub fn begin(&mut self, there: &[ClusterModule]) {
        self.before = Some(there.iter().map(|module| short(&module.id)).collect());
    }

    /// The modules of a cluster that have appeared since [`Ledger::begin`] and that nobody has claimed.
    pub fn appeared<'a>(
        &self,
        cluster: &str,
        there: &'a [ClusterModule],
        claimed: impl Fn(&str) -> bool,
    ) -> Vec<&'a str> {
        let Some(before) = &self.before else { return Vec::new() };
        let ours: BTreeSet<_> = self.ids().collect();
        let mut new: Vec<_> = there
            .iter()
            .filter(|module| module.cluster == cluster && !before.contains(&short(&module.id)))
            .filter(|module| !ours.contains(&module.id) && !claimed(&module.id))
            .map(|module| module.id.as_str())
            .collect();
        new.sort_unstable();
        new
    }
}

fn short(id: &str) -> String {
    id.chars().take(SHORT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(id: &str) -> ClusterModule {
        ClusterModule { id: id.into(), cluster: "domain-c8".into() }
    }

    fn slot(group: &str) -> Slot {
        Slot { cluster: "domain-c8".into(), group: group.into() }
    }

    #[test]
    fn what_was_made_before_a_crash_is_found() {
        let mut ledger = Ledger::default();
        ledger.begin(&[module("old-0001")]);
        let there = [module("old-0001"), module("new-0002"), module("new-0003"), module("theirs-4")];
        let appeared = ledger.appeared("domain-c8", &there, |id| id == "theirs-4");
        assert_eq!(appeared, ["new-0002", "new-0003"]);
        assert!(ledger.appeared("domain-c9", &there, |_| false).is_empty());
        ledger.enter(slot("a"), "new-0002".into());
        assert_eq!(ledger.appeared("domain-c8", &there, |id| id == "theirs-4"), ["new-0003"]);
        ledger.before = None;
        assert!(ledger.appeared("domain-c8", &there, |_| false).is_empty());
    }

    #[test]
    fn it_travels_as_an_annotation_and_the_status_is_taken_where_there_is_none() {
        let mut policy = VirtualMachineSetResourcePolicy::default();
        let mut ledger = Ledger::default();
        ledger.enter(slot("a"), "m-1".into());
        ledger.begin(&[module("52f7a1c0-1111")]);
        insta::assert_snapshot!(ledger.text(), @r#"{"modules":{"domain-c8":{"a":"m-1"}},"before":["52f7a1c0"]}"#);
        policy.annotations_mut().insert(ANNOTATION.into(), ledger.text());
        assert_eq!(Ledger::read(&policy), ledger);

        policy.annotations_mut().clear();
        assert_eq!(Ledger::read(&policy), Ledger::default());
        policy.status = serde_json::from_value(serde_json::json!({
            "clustermodules": [{"groupname": "b", "moduleUUID": "m-2", "clusterMoID": "domain-c8"}],
        }))
        .unwrap();
        assert_eq!(Ledger::read(&policy).module(&slot("b")).unwrap(), "m-2");
    }

    #[test]
    fn a_module_that_is_gone_is_missing() {
        let mut ledger = Ledger::default();
        ledger.enter(slot("a"), "m-1".into());
        ledger.enter(slot("b"), "m-2".into());
        let wanted = BTreeSet::from([slot("a"), slot("b")]);
        assert!(ledger.missing(&wanted).is_empty());
        ledger.keep(&[module("m-1")]);
        assert_eq!(ledger.missing(&wanted), [slot("b")]);
    }
}
