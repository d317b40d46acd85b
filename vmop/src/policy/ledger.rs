//! The ledger: a policy annotation that records the policy's objects in vCenter.
//!
//! Names don't prove ownership: anyone can name a folder, pool or policy, and cluster modules don't have names. So the
//! annotation records ids, and admission lets only administrators write it. Before an object is created, the annotation records
//! the name or, for modules, the modules that already exist. If the process crashes in between, a new object that is empty and
//! unclaimed belongs to the policy. Unlike a status, the annotation is kept when objects are moved to another cluster.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use vsphere::MoRef;
use vsphere::automation::ClusterModule;

use crate::stable_hash::stable_hash;

/// The annotation key.
pub const ANNOTATION: &str = api::names::annotation::RESOURCE_POLICY_LEDGER;

/// A cluster module group in one vSphere cluster. Each slot needs one module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleSlot {
    /// The cluster's MoID.
    pub cluster: String,
    /// The group's name.
    pub group: String,
}

/// The content of a policy's ledger annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The policy's module ids, by cluster and group.
    pub modules: BTreeMap<String, BTreeMap<String, String>>,
    /// The policy's folders and pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Child>,
    /// The hashed ids of all cluster modules that existed when module creation began. `None` unless modules are being created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<BTreeSet<String>>,
}

/// A folder or pool that was created for a policy, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    pub kind: ChildKind,
    /// The MoID of the parent folder or pool.
    pub parent: String,
    /// The name in vCenter.
    pub name: String,
    /// The MoID, or `None` while the child is being created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The kinds of objects that a policy creates in its namespace's folder and pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildKind {
    /// A VM folder.
    Folder,
    ResourcePool,
}

impl ChildKind {
    /// Returns the managed object type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Folder => "Folder",
            Self::ResourcePool => "ResourcePool",
        }
    }
}

impl Child {
    /// Returns the managed object reference, or `None` while the child is being created.
    pub fn moref(&self) -> Option<MoRef> {
        self.id.as_deref().map(|id| MoRef::new(self.kind.type_name(), id))
    }

    /// Returns the parent folder or pool.
    pub fn parent(&self) -> MoRef {
        MoRef::new(self.kind.type_name(), self.parent.as_str())
    }
}

impl Ledger {
    /// Parses the policy's annotation. A missing or invalid annotation results in an empty ledger. The status isn't used,
    /// because namespace users can write it.
    pub fn read(policy: &VirtualMachineSetResourcePolicy) -> Self {
        let written = policy.annotations().get(ANNOTATION);
        written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Serializes the ledger as the annotation's value.
    pub fn text(&self) -> String {
        // Serializing maps and sets of strings can't fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the recorded module id for the slot.
    pub fn module(&self, slot: &ModuleSlot) -> Option<&String> {
        self.modules.get(&slot.cluster)?.get(&slot.group)
    }

    /// Records the module id for the slot.
    pub fn enter(&mut self, slot: ModuleSlot, id: String) {
        self.modules.entry(slot.cluster).or_default().insert(slot.group, id);
    }

    /// Returns the policy's module, folder and pool ids.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.module_ids().chain(self.children.iter().filter_map(|child| child.id.as_ref()))
    }

    /// Returns all module ids.
    pub fn module_ids(&self) -> impl Iterator<Item = &String> {
        self.modules.values().flat_map(BTreeMap::values)
    }

    /// Returns the folder or pool with that name, even if it is only about to be created.
    pub fn child(&self, kind: ChildKind, parent: &MoRef, name: &str) -> Option<&Child> {
        self.children.iter().find(|child| child.is(kind, parent, name))
    }

    /// Records a folder or pool with its id. `None` means that it is about to be created.
    pub fn enter_child(&mut self, kind: ChildKind, parent: &MoRef, name: &str, id: Option<&str>) {
        self.forget_child(kind, parent, name);
        let (parent, name, id) = (parent.id().to_owned(), name.to_owned(), id.map(str::to_owned));
        self.children.push(Child { kind, parent, name, id });
    }

    /// Removes a folder or pool from the ledger.
    pub fn forget_child(&mut self, kind: ChildKind, parent: &MoRef, name: &str) {
        self.children.retain(|child| !child.is(kind, parent, name));
    }

    /// Removes all modules except those that exist in vCenter (`there`).
    pub fn keep(&mut self, there: &[ClusterModule]) {
        for (cluster, groups) in &mut self.modules {
            groups.retain(|_, id| there.iter().any(|module| module.id == *id && module.cluster == *cluster));
        }
        self.modules.retain(|_, groups| !groups.is_empty());
    }

    /// Returns the wanted slots without a module.
    pub fn missing(&self, wanted: &BTreeSet<ModuleSlot>) -> Vec<ModuleSlot> {
        wanted.iter().filter(|slot| self.module(slot).is_none()).cloned().collect()
    }

    /// Records that modules are about to be created, and which modules already exist (`there`).
    pub fn begin(&mut self, there: &[ClusterModule]) {
        self.known = Some(there.iter().map(|module| hashed(&module.id)).collect());
    }

    /// Returns the modules in a cluster that appeared after [`Ledger::begin`] and aren't claimed.
    pub fn appeared<'a>(
        &self,
        cluster: &str,
        there: &'a [ClusterModule],
        claimed: impl Fn(&str) -> bool,
    ) -> Vec<&'a str> {
        let Some(known) = &self.known else { return Vec::new() };
        let ours: BTreeSet<_> = self.module_ids().collect();
        let mut new: Vec<_> = there
            .iter()
            .filter(|module| module.cluster == cluster && !known.contains(&hashed(&module.id)))
            .filter(|module| !ours.contains(&module.id) && !claimed(&module.id))
            .map(|module| module.id.as_str())
            .collect();
        new.sort_unstable();
        new
    }
}

impl Child {
    fn is(&self, kind: ChildKind, parent: &MoRef, name: &str) -> bool {
        self.kind == kind && self.parent == parent.id() && self.name == name
    }
}

/// Hashes a module id, because anyone who knows an id can change the module: the annotation must not disclose the ids of other
/// owners' modules.
fn hashed(id: &str) -> String {
    format!("{:016x}", stable_hash([id]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(id: &str) -> ClusterModule {
        ClusterModule { id: id.into(), cluster: "domain-c8".into() }
    }

    fn slot(group: &str) -> ModuleSlot {
        ModuleSlot { cluster: "domain-c8".into(), group: group.into() }
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
        ledger.known = None;
        assert!(ledger.appeared("domain-c8", &there, |_| false).is_empty());
    }

    #[test]
    fn it_travels_as_an_annotation_and_shows_no_module_of_others() {
        let mut policy = VirtualMachineSetResourcePolicy::default();
        let mut ledger = Ledger::default();
        ledger.enter(slot("a"), "m-1".into());
        ledger.enter_child(ChildKind::Folder, &MoRef::folder("group-v3"), "web", Some("group-v9"));
        ledger.enter_child(ChildKind::ResourcePool, &MoRef::pool("resgroup-8"), "web", None);
        ledger.begin(&[module("52f7a1c0-1111")]);
        insta::assert_snapshot!(ledger.text(), @r#"{"modules":{"domain-c8":{"a":"m-1"}},"children":[{"kind":"Folder","parent":"group-v3","name":"web","id":"group-v9"},{"kind":"ResourcePool","parent":"resgroup-8","name":"web"}],"known":["88de7410a625faa8"]}"#);
        policy.annotations_mut().insert(ANNOTATION.into(), ledger.text());
        assert_eq!(Ledger::read(&policy), ledger);

        policy.annotations_mut().clear();
        policy.status = serde_json::from_value(serde_json::json!({
            "clustermodules": [{"groupname": "b", "moduleUUID": "m-2", "clusterMoID": "domain-c8"}],
        }))
        .unwrap();
        assert_eq!(Ledger::read(&policy), Ledger::default(), "a status is no record");
    }

    #[test]
    fn a_folder_and_a_pool_of_one_name_are_two_children() {
        let mut ledger = Ledger::default();
        let (folder, pool) = (MoRef::folder("group-v3"), MoRef::pool("resgroup-8"));
        ledger.enter_child(ChildKind::Folder, &folder, "web", None);
        ledger.enter_child(ChildKind::Folder, &folder, "web", Some("group-v9"));
        ledger.enter_child(ChildKind::ResourcePool, &pool, "web", Some("resgroup-9"));
        assert_eq!(ledger.children.len(), 2);
        let made = ledger.child(ChildKind::Folder, &folder, "web").unwrap();
        assert_eq!((made.moref(), made.parent()), (Some(MoRef::folder("group-v9")), folder.clone()));
        assert_eq!(ledger.ids().collect::<Vec<_>>(), ["group-v9", "resgroup-9"]);
        ledger.forget_child(ChildKind::Folder, &folder, "web");
        assert_eq!(ledger.child(ChildKind::Folder, &folder, "web"), None);
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
