//! What a policy has in vCenter: known from nothing but what was written down.
//!
//! Names prove nothing: anybody may give a folder, a pool or a policy any name, and a cluster module has none. So
//! the policy's annotation says what was made for it, by ids; admission keeps everybody but administrators from
//! writing it. Before something is made, the annotation says that it is about to be, under which name, and which
//! modules there are. After a crash between the two, what has appeared since, is empty and nobody's, is ours: it is
//! as good as new. The annotation travels when objects are moved to another cluster, which a status does not.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use vsphere::MoRef;
use vsphere::automation::ClusterModule;

use crate::stable_hash::stable_hash;

/// The annotation.
pub const ANNOTATION: &str = api::names::annotation::RESOURCE_POLICY_LEDGER;

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
    /// The folders and pools that are ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Child>,
    /// While modules are being made: those that there were before, by hashes, since they are other people's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<BTreeSet<String>>,
}

/// A folder or a pool that was made for a policy, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Whether it is a folder or a pool.
    pub kind: ChildKind,
    /// MoID of the folder or pool that it is in.
    pub parent: String,
    /// Its name in vCenter.
    pub name: String,
    /// Its MoID; `None` while it is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// What a policy has below the folder and the pool of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildKind {
    /// A folder of VMs.
    Folder,
    /// A resource pool.
    ResourcePool,
}

impl ChildKind {
    /// The managed object's type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Folder => "Folder",
            Self::ResourcePool => "ResourcePool",
        }
    }
}

impl Child {
    /// It, as vCenter knows it; `None` while it is being made.
    pub fn moref(&self) -> Option<MoRef> {
        self.id.as_deref().map(|id| MoRef::new(self.kind.type_name(), id))
    }

    /// What it is in.
    pub fn parent(&self) -> MoRef {
        MoRef::new(self.kind.type_name(), self.parent.as_str())
    }
}

impl Ledger {
    /// What the policy's annotation says. Nothing else counts: a namespace's user may write a status.
    pub fn read(policy: &VirtualMachineSetResourcePolicy) -> Self {
        let written = policy.annotations().get(ANNOTATION);
        written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
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

    /// The ids of all modules, folders and pools that are ours.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.module_ids().chain(self.children.iter().filter_map(|child| child.id.as_ref()))
    }

    /// The ids of all modules that are ours.
    pub fn module_ids(&self) -> impl Iterator<Item = &String> {
        self.modules.values().flat_map(BTreeMap::values)
    }

    /// The folder or pool of that name, made or about to be.
    pub fn child(&self, kind: ChildKind, parent: &MoRef, name: &str) -> Option<&Child> {
        self.children.iter().find(|child| child.is(kind, parent, name))
    }

    /// The folder or pool of that name has that id, or is about to be made.
    pub fn enter_child(&mut self, kind: ChildKind, parent: &MoRef, name: &str, id: Option<&str>) {
        self.forget_child(kind, parent, name);
        let (parent, name, id) = (parent.id().to_owned(), name.to_owned(), id.map(str::to_owned));
        self.children.push(Child { kind, parent, name, id });
    }

    /// There is no folder or pool of ours of that name.
    pub fn forget_child(&mut self, kind: ChildKind, parent: &MoRef, name: &str) {
        self.children.retain(|child| !child.is(kind, parent, name));
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
        self.known = Some(there.iter().map(|module| hashed(&module.id)).collect());
    }

    /// The modules of a cluster that have appeared since [`Ledger::begin`] and that nobody has claimed.
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

/// Tells a module from others, and nobody its id: who knows an id could have the module changed.
fn hashed(id: &str) -> String {
    format!("{:016x}", stable_hash([id]))
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
        // As earlier versions have begun: what they saw is not known here, so nothing is taken for new.
        policy.annotations_mut().insert(ANNOTATION.into(), r#"{"modules":{},"before":[]}"#.into());
        assert!(Ledger::read(&policy).appeared("domain-c8", &[module("m-3")], |_| false).is_empty());
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
