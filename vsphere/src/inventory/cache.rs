//! The cache as a state machine that turns updates into deltas, without I/O or a clock.
//!
//! vCenter may repeat updates: it resends the updates of a lost response, and in a new session it resends everything.
//! Applying an update is therefore idempotent, and yields a delta only if the VM differs.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use super::update::{ObjectUpdate, UpdateKind};
use super::vm::{Configuration, Vm};
use crate::MoRef;

/// The maximum number of departed VMs to remember.
const DEPARTED: usize = 1024;

/// All VMs, indexed by reference, by instance UUID, by BIOS UUID, and by folder and name.
#[derive(Debug, Default)]
pub(super) struct VmCache {
    vms: HashMap<MoRef, Arc<Vm>>,
    /// References by instance UUID. Several VMs can share a UUID after a copy outside vCenter.
    uuids: HashMap<Uuid, Vec<MoRef>>,
    /// References by BIOS UUID, which several VMs can share.
    bios_uuids: HashMap<Uuid, Vec<MoRef>>,
    /// References by folder and name. Several VMs can share a name while they swap names.
    names: HashMap<MoRef, HashMap<String, Vec<MoRef>>>,
    /// VMs whose configuration vCenter has never reported.
    unidentified: HashSet<MoRef>,
    /// The instance UUIDs and references of the VMs that left most recently, oldest first. While vCenter can't read a
    /// VM, the VM can be found only by reference.
    departed: VecDeque<(Uuid, MoRef)>,
    keep: Vec<String>,
    /// During a rebuild: the VMs that the stream has resent.
    resent: Option<HashSet<MoRef>>,
    /// While a new root is read: the VMs that have left since the read began.
    left: Option<HashSet<MoRef>>,
}

/// A VM before and after an update.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delta {
    pub moref: MoRef,
    pub was: Option<Arc<Vm>>,
    pub now: Option<Arc<Vm>>,
}

impl VmCache {
    pub fn new(keep: Vec<String>) -> Self {
        Self { keep, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.vms.len()
    }

    pub fn get(&self, moref: &MoRef) -> Option<&Arc<Vm>> {
        self.vms.get(moref)
    }

    /// Returns the VM with this instance UUID. If several VMs share the UUID, prefers available VMs, then VMs over
    /// templates, then the lowest reference.
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<Vm>> {
        self.first(self.uuids.get(&uuid)?)
    }

    /// Returns the reference of the last VM that left with this instance UUID.
    pub fn departed(&self, uuid: Uuid) -> Option<&MoRef> {
        self.departed.iter().rev().find(|(left, _)| *left == uuid).map(|(_, moref)| moref)
    }

    /// Like [`Self::by_uuid`], but for the BIOS UUID.
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

    /// Returns the VMs whose configuration vCenter has never reported.
    pub fn unidentified(&self) -> impl Iterator<Item = &Arc<Vm>> {
        self.unidentified.iter().filter_map(|moref| self.vms.get(moref))
    }

    /// Applies an update and returns the difference, if any.
    pub fn apply(&mut self, update: ObjectUpdate) -> Option<Delta> {
        let ObjectUpdate { obj, kind, changes } = update;
        let was = self.vms.get(&obj).cloned();
        let mut vm = match (kind, &was) {
            (UpdateKind::Leave, _) => {
                if let Some(left) = &mut self.left {
                    left.insert(obj.clone());
                }
                if let Some(resent) = &mut self.resent {
                    resent.remove(&obj);
                }
                return self.put(&obj, was, None);
            }
            // A `modify` update for a VM that has left is a late repetition.
            (UpdateKind::Modify, None) => return None,
            // An `enter` update contains all properties, so start from an empty VM. `keep_last_known` restores a
            // configuration that vCenter can't read now.
            (UpdateKind::Enter, _) => Vm::new(obj.clone()),
            (UpdateKind::Modify, Some(vm)) => Vm::clone(vm),
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

    /// Begins a rebuild: the stream resends everything from here on.
    pub fn begin(&mut self) {
        self.resent = Some(HashSet::new());
    }

    /// Ends a rebuild: removes the VMs that were not resent.
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

    /// Starts to record the VMs that leave, because a new root folder will be read outside the stream.
    pub fn reading(&mut self) {
        self.left = Some(HashSet::new());
    }

    /// Adds VMs that were read outside the stream. The stream has precedence: VMs that the stream has already added or
    /// removed are skipped.
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

    /// Stops recording the VMs that leave, because the new root folder has been read.
    pub fn has_read(&mut self) {
        self.left = None;
    }
}

/// Adds a reference to an index. Most keys have a single reference, for which `Vec` would allocate space for four by
/// default.
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
