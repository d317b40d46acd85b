//! The cache as a state machine: updates in, changes out. No I/O, no clock.
//!
//! vCenter may repeat itself: an answer that was lost comes again, a new session sends everything
//! anew. Applying an update twice is therefore the same as applying it once, and only what differs
//! from before is a change.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use super::update::{Kind, ObjectUpdate};
use super::vm::{Configuration, Vm};
use crate::MoRef;

/// How many VMs that have left are remembered.
const DEPARTED: usize = 1024;

/// All VMs, by reference, by instance UUID, and by folder and name.
#[derive(Debug, Default)]
pub(super) struct Cache {
    vms: HashMap<MoRef, Arc<Vm>>,
    /// Two VMs can have one UUID by a copy made outside vCenter, and one name while they swap names.
    uuids: HashMap<Uuid, Vec<MoRef>>,
    bios_uuids: HashMap<Uuid, Vec<MoRef>>,
    names: HashMap<MoRef, HashMap<String, Vec<MoRef>>>,
    /// Those whose configuration vCenter has never reported.
    unidentified: HashSet<MoRef>,
    /// Those that left last, by instance UUID, the oldest first: one that vCenter can't read is found by nothing else.
    departed: VecDeque<(Uuid, MoRef)>,
    keep: Vec<String>,
    /// While the cache is rebuilt: the VMs that the stream has shown since.
    resent: Option<HashSet<MoRef>>,
    /// While a root is being read: who has left since.
    left: Option<HashSet<MoRef>>,
}

/// One VM before and after.
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
        self.vms.len()
    }

    pub fn get(&self, moref: &MoRef) -> Option<&Arc<Vm>> {
        self.vms.get(moref)
    }

    /// Of several with one UUID, one that can be reached, a VM before a template, then the lowest reference.
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<Vm>> {
        self.first(self.uuids.get(&uuid)?)
    }

    /// The reference that a VM had when it left, with that instance UUID.
    pub fn departed(&self, uuid: Uuid) -> Option<&MoRef> {
        self.departed.iter().rev().find(|(left, _)| *left == uuid).map(|(_, moref)| moref)
    }

    /// As [`Self::by_uuid`], by the BIOS UUID.
    pub fn by_bios_uuid(&self, uuid: Uuid) -> Option<&Arc<Vm>> {
        self.first(self.bios_uuids.get(&uuid)?)
    }

    pub fn by_name(&self, folder: &MoRef, name: &str) -> Option<&Arc<Vm>> {
        self.first(self.names.get(folder)?.get(name)?)
    }

    fn first(&self, morefs: &[MoRef]) -> Option<&Arc<Vm>> {
        morefs
            .iter()
            .filter_map(|moref| self.vms.get(moref))
            .min_by_key(|vm| (!vm.is_available(), vm.template, &vm.moref))
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Vm>> {
        self.vms.values()
    }

    /// The VMs whose configuration vCenter has never reported.
    pub fn unidentified(&self) -> impl Iterator<Item = &Arc<Vm>> {
        self.unidentified.iter().filter_map(|moref| self.vms.get(moref))
    }

    /// Applies one update of a VM.
    pub fn apply(&mut self, update: ObjectUpdate) -> Option<Delta> {
        let ObjectUpdate { obj, kind, changes } = update;
        let was = self.vms.get(&obj).cloned();
        let mut vm = match (kind, &was) {
            (Kind::Leave, _) => {
                if let Some(left) = &mut self.left {
                    left.insert(obj.clone());
                }
                if let Some(resent) = &mut self.resent {
                    resent.remove(&obj);
                }
                return self.put(&obj, was, None);
            }
            // A change of a VM that has left is a late repetition.
            (Kind::Modify, None) => return None,
            // An enter brings everything, so nothing of before may stay but what vCenter can't read now.
            (Kind::Enter, _) => Vm::new(obj.clone()),
            (Kind::Modify, Some(vm)) => Vm::clone(vm),
        };
        if let Some(resent) = &mut self.resent {
            resent.insert(obj.clone());
        }
        vm.apply(&changes, &self.keep);
        let now = match &was {
            Some(was) => vm.keep_last_known(was),
            None => vm,
        };
        self.put(&obj, was, Some(now))
    }

    fn put(&mut self, obj: &MoRef, was: Option<Arc<Vm>>, now: Option<Vm>) -> Option<Delta> {
        if was.as_deref() == now.as_ref() {
            return None;
        }
        let now = now.map(Arc::new);
        if let Some(was) = &was {
            self.unindex(was);
        }
        if let Some(now) = &now {
            self.index(now);
            self.vms.insert(obj.clone(), now.clone());
        } else {
            self.vms.remove(obj);
            self.departed.extend(was.as_ref().and_then(|was| Some((was.instance_uuid?, obj.clone()))));
            if self.departed.len() > DEPARTED {
                self.departed.pop_front();
            }
        }
        Some(Delta { moref: obj.clone(), was, now })
    }

    fn index(&mut self, vm: &Vm) {
        if vm.configuration == Configuration::NeverRead {
            self.unidentified.insert(vm.moref.clone());
        }
        if let Some(uuid) = vm.instance_uuid {
            push(self.uuids.entry(uuid), &vm.moref);
        }
        if let Some(uuid) = vm.uuid {
            push(self.bios_uuids.entry(uuid), &vm.moref);
        }
        if let Some(folder) = &vm.folder {
            let names = self.names.entry(folder.clone()).or_default();
            push(names.entry(vm.name.clone()), &vm.moref);
        }
    }

    fn unindex(&mut self, vm: &Vm) {
        self.unidentified.remove(&vm.moref);
        if let Some(uuid) = vm.instance_uuid {
            remove(&mut self.uuids, &uuid, &vm.moref);
        }
        if let Some(uuid) = vm.uuid {
            remove(&mut self.bios_uuids, &uuid, &vm.moref);
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
        let gone: Vec<MoRef> = self.vms.keys().filter(|moref| !resent.contains(moref)).cloned().collect();
        gone.into_iter()
            .filter_map(|obj| {
                let was = self.vms.get(&obj).cloned();
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
            !left && !cache.vms.contains_key(obj)
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

/// Nearly all have one, for which a vector would take room for four.
fn push<K>(entry: Entry<'_, K, Vec<MoRef>>, moref: &MoRef) {
    entry.or_insert_with(|| Vec::with_capacity(1)).push(moref.clone());
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
mod tests;
