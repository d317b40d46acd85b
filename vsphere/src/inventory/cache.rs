//! The cache as a state machine: updates in, changes out. No I/O, no clock.
//!
//! vCenter may repeat itself: an answer that was lost comes again, a new session sends everything
//! anew. Applying an update twice is therefore the same as applying it once, and only what differs
//! from before is a change.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use super::update::{Kind, ObjectUpdate};
use super::vm::{PATHS, Vm};
use crate::MoRef;

/// All machines, by reference, by instance UUID, and by folder and name.
#[derive(Debug, Default)]
pub(super) struct Cache {
    machines: HashMap<MoRef, Arc<Vm>>,
    /// Two machines can have one UUID by a copy made outside vCenter, and one name while they swap names.
    uuids: HashMap<Uuid, Vec<MoRef>>,
    names: HashMap<MoRef, HashMap<String, Vec<MoRef>>>,
    keep: Vec<String>,
    /// While the cache is rebuilt: the VMs that the stream has shown since.
    resent: Option<HashSet<MoRef>>,
    /// While a root is being read: who has left since.
    left: Option<HashSet<MoRef>>,
}

/// One machine before and after.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delta {
    pub moref: MoRef,
    pub was: Option<Arc<Vm>>,
    pub now: Option<Arc<Vm>>,
}

impl Cache {
    pub fn new(keep: Vec<String>) -> Self {
        Self { keep, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.machines.len()
    }

    pub fn get(&self, moref: &MoRef) -> Option<&Arc<Vm>> {
        self.machines.get(moref)
    }

    /// Of several with one UUID, a machine before a template, then the lowest reference.
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<Vm>> {
        self.first(self.uuids.get(&uuid)?)
    }

    pub fn by_name(&self, folder: &MoRef, name: &str) -> Option<&Arc<Vm>> {
        self.first(self.names.get(folder)?.get(name)?)
    }

    fn first(&self, morefs: &[MoRef]) -> Option<&Arc<Vm>> {
        morefs.iter().filter_map(|moref| self.machines.get(moref)).min_by_key(|vm| (vm.template, &vm.moref))
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Vm>> {
        self.machines.values()
    }

    /// Applies one update of a virtual machine.
    pub fn apply(&mut self, update: ObjectUpdate) -> Option<Delta> {
        let ObjectUpdate { obj, kind, changes } = update;
        let was = self.machines.get(&obj).cloned();
        let vm = match (kind, &was) {
            (Kind::Leave, _) => {
                if let Some(left) = &mut self.left {
                    left.insert(obj.clone());
                }
                if let Some(resent) = &mut self.resent {
                    resent.remove(&obj);
                }
                return self.put(&obj, was, None);
            }
            // A change of a machine that has left is a late repetition.
            (Kind::Modify, None) => return None,
            // An enter brings everything, so nothing of before may stay.
            (Kind::Enter, _) => Vm::new(obj.clone()),
            (Kind::Modify, Some(vm)) => Vm::clone(vm),
        };
        if let Some(resent) = &mut self.resent {
            resent.insert(obj.clone());
        }
        let now = self.changed(vm, &changes);
        self.put(&obj, was, Some(now))
    }

    fn changed(&self, mut vm: Vm, changes: &[(String, crate::Value)]) -> Vm {
        for (path, value) in changes {
            if value.is_null() {
                // A parent that is unset unsets all below it.
                let below = |known: &&&str| {
                    known
                        .strip_prefix(path.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                for known in PATHS.iter().filter(below) {
                    vm.set(known, value, &self.keep);
                }
            } else {
                vm.set(path, value, &self.keep);
            }
        }
        vm
    }

    fn put(&mut self, obj: &MoRef, was: Option<Arc<Vm>>, now: Option<Vm>) -> Option<Delta> {
        if was.as_deref() == now.as_ref() {
            return None;
        }
        let now = now.map(Arc::new);
        if let Some(was) = &was {
            self.unindex(was);
        }
        match &now {
            Some(now) => {
                self.index(now);
                self.machines.insert(obj.clone(), now.clone());
            }
            None => {
                self.machines.remove(obj);
            }
        }
        Some(Delta { moref: obj.clone(), was, now })
    }

    fn index(&mut self, vm: &Vm) {
        if let Some(uuid) = vm.instance_uuid {
            self.uuids.entry(uuid).or_default().push(vm.moref.clone());
        }
        if let Some(folder) = &vm.folder {
            let names = self.names.entry(folder.clone()).or_default();
            names.entry(vm.name.clone()).or_default().push(vm.moref.clone());
        }
    }

    fn unindex(&mut self, vm: &Vm) {
        if let Some(uuid) = vm.instance_uuid {
            remove(&mut self.uuids, &uuid, &vm.moref);
        }
        if let Some(folder) = &vm.folder
            && let Some(names) = self.names.get_mut(folder)
        {
            remove(names, vm.name.as_str(), &vm.moref);
            if names.is_empty() {
                self.names.remove(folder);
            }
        }
    }

    /// From here on everything is sent anew.
    pub fn begin(&mut self) {
        self.resent = Some(HashSet::new());
    }

    /// Everything has been sent: what was not is gone.
    pub fn finish(&mut self) -> Vec<Delta> {
        let Some(resent) = self.resent.take() else { return Vec::new() };
        let gone: Vec<MoRef> =
            self.machines.keys().filter(|moref| !resent.contains(moref)).cloned().collect();
        gone.into_iter()
            .filter_map(|obj| {
                let was = self.machines.get(&obj).cloned();
                self.put(&obj, was, None)
            })
            .collect()
    }

    /// A root is about to be read beside the stream.
    pub fn reading(&mut self) {
        self.left = Some(HashSet::new());
    }

    /// What a page of the reading found. The stream knows better wherever it has spoken.
    pub fn read(&mut self, found: impl IntoIterator<Item = ObjectUpdate>) -> Vec<Delta> {
        let unknown = |cache: &Self, obj: &MoRef| {
            let left = cache.left.as_ref().is_some_and(|left| left.contains(obj));
            !left && !cache.machines.contains_key(obj)
        };
        found
            .into_iter()
            .filter_map(|update| if unknown(self, &update.obj) { self.apply(update) } else { None })
            .collect()
    }

    /// The root has been read.
    pub fn has_read(&mut self) {
        self.left = None;
    }
}

fn remove<K, Q>(index: &mut HashMap<K, Vec<MoRef>>, key: &Q, moref: &MoRef)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
{
    if let Some(morefs) = index.get_mut(key) {
        morefs.retain(|other| other != moref);
        if morefs.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Object, Value};

    fn update(kind: Kind, id: &str, changes: &[(&str, Value)]) -> ObjectUpdate {
        let changes = changes.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect();
        ObjectUpdate { obj: MoRef::vm(id), kind, changes }
    }

    fn enter(id: &str, name: &str, uuid: Uuid) -> ObjectUpdate {
        let parent = Value::from(MoRef::folder("group-v3"));
        update(
            Kind::Enter,
            id,
            &[("name", name.into()), ("parent", parent), ("config.instanceUuid", uuid.to_string().into())],
        )
    }

    fn option(key: &str, value: &str) -> Object {
        Object::new("OptionValue").with("key", key).with("value", Value::any_string(value))
    }

    #[test]
    fn a_machine_is_found_by_every_key_until_it_leaves() {
        let (mut cache, uuid, folder) = (Cache::default(), Uuid::from_u128(1), MoRef::folder("group-v3"));
        let appeared = cache.apply(enter("vm-1", "a%2fb", uuid)).unwrap();
        assert_eq!(appeared.was, None);
        assert_eq!(cache.by_uuid(uuid).unwrap().moref, MoRef::vm("vm-1"));
        assert!(cache.by_name(&folder, "a/b").is_some());

        assert_eq!(cache.apply(enter("vm-1", "a%2fb", uuid)), None, "sent twice");
        cache.apply(update(Kind::Modify, "vm-1", &[("name", "c".into())])).unwrap();
        assert!(cache.by_name(&folder, "a/b").is_none() && cache.by_name(&folder, "c").is_some());

        let left = cache.apply(update(Kind::Leave, "vm-1", &[])).unwrap();
        assert_eq!((left.was.unwrap().name.as_str(), left.now), ("c", None));
        assert!(cache.by_uuid(uuid).is_none() && cache.by_name(&folder, "c").is_none());
        let late = update(Kind::Modify, "vm-1", &[("name", "d".into())]);
        assert_eq!(cache.apply(late), None, "a change after the end is a repetition");
    }

    #[test]
    fn a_parent_that_is_unset_unsets_what_is_below() {
        let mut cache = Cache::default();
        let sent =
            [("guest.ipAddress", "10.0.0.1".into()), ("guest.hostName", "h".into()), ("name", "a".into())];
        cache.apply(update(Kind::Enter, "vm-1", &sent));
        cache.apply(update(Kind::Modify, "vm-1", &[("guest", Value::Null)]));
        let vm = cache.get(&MoRef::vm("vm-1")).unwrap();
        assert_eq!((&vm.guest.ip, &vm.guest.host_name, vm.name.as_str()), (&None, &None, "a"));
    }

    #[test]
    fn no_secret_is_kept() {
        let mut cache = Cache::new(vec!["vmservice.".into(), "guestinfo.".into()]);
        let options = Value::from(vec![
            option("vmservice.namespacedName", "ns/cp-0"),
            option("guestinfo.userdata", "H4sI-secret"),
            option("guestinfo.vendordata", "---"),
            option("guestinfo.metadata", ""),
            option("guestinfo.password", "secret"),
            option("guestinfo.local-ipv4", "10.0.0.1"),
            option("sched.cpu.latencySensitivity", "normal"),
        ]);
        cache.apply(update(Kind::Enter, "vm-1", &[("config.extraConfig", options)]));
        let vm = cache.get(&MoRef::vm("vm-1")).unwrap();
        let kept: Vec<&str> = vm.extra_config.keys().map(String::as_str).collect();
        assert_eq!(kept, ["guestinfo.local-ipv4", "vmservice.namespacedName"]);
        assert!(!format!("{vm:?}").contains("secret"));
        assert_eq!(vm.guestinfo["guestinfo.userdata"], super::super::GuestInfo::of("H4sI-secret"));
        assert_eq!(vm.guestinfo["guestinfo.vendordata"], super::super::GuestInfo::Redacted);
        assert_eq!(vm.guestinfo["guestinfo.metadata"], super::super::GuestInfo::Empty);
    }

    #[test]
    fn interfaces_inside_the_guest_are_no_news() {
        let nic = |key: i32, ip: &str| {
            Object::new("GuestNicInfo")
                .with("ipAddress", vec![ip])
                .with("connected", true)
                .with("deviceConfigId", key)
        };
        let mut cache = Cache::default();
        cache.apply(update(Kind::Enter, "vm-1", &[("guest.net", vec![nic(4000, "10.0.0.1")].into())]));
        let more = vec![nic(4000, "10.0.0.1"), nic(-1, "192.168.0.1")];
        assert_eq!(cache.apply(update(Kind::Modify, "vm-1", &[("guest.net", more.into())])), None);
    }

    #[test]
    fn what_is_not_sent_again_is_gone() {
        let mut cache = Cache::default();
        for id in ["vm-1", "vm-2"] {
            cache.apply(enter(id, id, Uuid::nil()));
        }
        cache.begin();
        assert_eq!(cache.apply(enter("vm-2", "vm-2", Uuid::nil())), None);
        assert_eq!(cache.len(), 2, "nothing is forgotten before everything is sent");
        let gone = cache.finish();
        assert_eq!(gone.len(), 1);
        assert_eq!((&gone[0].moref, &gone[0].now), (&MoRef::vm("vm-1"), &None));
    }

    #[test]
    fn the_stream_knows_better_than_a_reading_beside_it() {
        let mut cache = Cache::default();
        cache.apply(enter("vm-1", "new", Uuid::nil()));
        cache.reading();
        cache.apply(update(Kind::Leave, "vm-2", &[]));
        let found = ["vm-1", "vm-2", "vm-3"].map(|id| enter(id, "old", Uuid::nil()));
        let deltas = cache.read(found);
        assert_eq!(deltas.len(), 1);
        assert_eq!(cache.get(&MoRef::vm("vm-1")).unwrap().name, "new");
        assert!(cache.get(&MoRef::vm("vm-2")).is_none() && cache.get(&MoRef::vm("vm-3")).is_some());
    }

    prop_compose! {
        fn any_update()(id in 0..4u8, kind in 0..6u8, name in "[ab]", uuid in 0..3u128) -> ObjectUpdate {
            let id = format!("vm-{id}");
            match kind {
                0 | 1 => enter(&id, &name, Uuid::from_u128(uuid)),
                2 => update(Kind::Leave, &id, &[]),
                3 => update(Kind::Modify, &id, &[("config", Value::Null)]),
                4 => update(Kind::Modify, &id, &[("config.instanceUuid", Uuid::from_u128(uuid).to_string().into())]),
                _ => update(Kind::Modify, &id, &[("name", name.into())]),
            }
        }
    }

    /// Every index finds exactly what a scan finds.
    fn check_indexes(cache: &Cache) {
        let folder = MoRef::folder("group-v3");
        for uuid in (0..3).map(Uuid::from_u128) {
            let scanned = cache.all().any(|vm| vm.instance_uuid == Some(uuid));
            assert_eq!(cache.by_uuid(uuid).is_some(), scanned);
        }
        for name in ["a", "b"] {
            let scanned = cache.all().any(|vm| vm.name == name && vm.folder.as_ref() == Some(&folder));
            assert_eq!(cache.by_name(&folder, name).is_some(), scanned);
        }
        let indexed: usize = cache.uuids.values().map(Vec::len).sum();
        assert_eq!(indexed, cache.all().filter(|vm| vm.instance_uuid.is_some()).count());
    }

    proptest! {
        #[test]
        fn repetitions_change_nothing(updates in proptest::collection::vec(any_update(), 0..40)) {
            let (mut once, mut twice) = (Cache::default(), Cache::default());
            for update in updates {
                once.apply(update.clone());
                twice.apply(update.clone());
                prop_assert_eq!(twice.apply(update), None);
                check_indexes(&twice);
            }
            prop_assert_eq!(&once.machines, &twice.machines);
        }

        #[test]
        fn a_rebuilt_cache_is_as_a_new_one(
            before in proptest::collection::vec(any_update(), 0..20),
            after in proptest::collection::vec(any_update(), 0..20),
        ) {
            let (mut rebuilt, mut fresh) = (Cache::default(), Cache::default());
            for update in before {
                rebuilt.apply(update);
            }
            rebuilt.begin();
            fresh.begin();
            // A new stream sends no change of a VM before it has sent the VM itself.
            let sent = after.into_iter().filter(|update| update.kind != Kind::Modify);
            for update in sent {
                rebuilt.apply(update.clone());
                fresh.apply(update);
            }
            rebuilt.finish();
            fresh.finish();
            check_indexes(&rebuilt);
            prop_assert_eq!(&rebuilt.machines, &fresh.machines);
        }

        #[test]
        fn deltas_add_up_to_the_cache(updates in proptest::collection::vec(any_update(), 0..40)) {
            let mut cache = Cache::default();
            let mut followed: HashMap<MoRef, Arc<Vm>> = HashMap::new();
            for update in updates {
                if let Some(Delta { moref, was, now }) = cache.apply(update) {
                    let before = match now {
                        Some(now) => followed.insert(moref, now),
                        None => followed.remove(&moref),
                    };
                    prop_assert_eq!(before, was);
                }
            }
            prop_assert_eq!(&followed, &cache.machines);
        }
    }
}
