//! The cache as a state machine: updates in, changes out. No I/O, no clock.
//!
//! vCenter may repeat itself: an answer that was lost comes again, a new session tells everything
//! anew. Applying an update twice is therefore the same as applying it once, and only what differs
//! from before is a change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::update::{Kind, ObjectUpdate};
use super::vm::{PATHS, Vm};
use crate::MoRef;

/// All machines, by reference, by instance UUID, and by folder and name.
#[derive(Debug, Default)]
pub(super) struct Cache {
    machines: HashMap<MoRef, Arc<Vm>>,
    /// Two machines can have one UUID for a moment, or by a copy made outside vCenter.
    uuids: HashMap<Uuid, Vec<MoRef>>,
    names: HashMap<MoRef, HashMap<String, MoRef>>,
    keep: Vec<String>,
    /// While the cache is rebuilt: who has been told of since.
    retold: Option<HashSet<MoRef>>,
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

    /// Of several with one UUID, the one that is no template and has the lowest reference.
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<Vm>> {
        let morefs = self.uuids.get(&uuid)?;
        morefs.iter().filter_map(|moref| self.machines.get(moref)).min_by_key(|vm| (vm.template, &vm.moref))
    }

    pub fn by_name(&self, folder: &MoRef, name: &str) -> Option<&Arc<Vm>> {
        self.machines.get(self.names.get(folder)?.get(name)?)
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
                if let Some(retold) = &mut self.retold {
                    retold.remove(&obj);
                }
                return self.put(&obj, was, None);
            }
            // A change of a machine that has left is a late repetition.
            (Kind::Modify, None) => return None,
            // An enter tells everything, so nothing of before may stay.
            (Kind::Enter, _) => Vm::new(obj.clone()),
            (Kind::Modify, Some(vm)) => Vm::clone(vm),
        };
        if let Some(retold) = &mut self.retold {
            retold.insert(obj.clone());
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
            self.names.entry(folder.clone()).or_default().insert(vm.name.clone(), vm.moref.clone());
        }
    }

    fn unindex(&mut self, vm: &Vm) {
        if let Some(uuid) = vm.instance_uuid
            && let Some(morefs) = self.uuids.get_mut(&uuid)
        {
            morefs.retain(|moref| *moref != vm.moref);
            if morefs.is_empty() {
                self.uuids.remove(&uuid);
            }
        }
        if let Some(folder) = &vm.folder
            && let Some(names) = self.names.get_mut(folder)
        {
            // The name may belong to another by now.
            if names.get(&vm.name) == Some(&vm.moref) {
                names.remove(&vm.name);
            }
            if names.is_empty() {
                self.names.remove(folder);
            }
        }
    }

    /// From here on everything is told anew.
    pub fn begin(&mut self) {
        self.retold = Some(HashSet::new());
    }

    /// Everything has been told: who was not is gone.
    pub fn finish(&mut self) -> Vec<Delta> {
        let Some(retold) = self.retold.take() else { return Vec::new() };
        let gone: Vec<MoRef> =
            self.machines.keys().filter(|moref| !retold.contains(moref)).cloned().collect();
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

    /// What the reading found. The stream knows better wherever it has spoken.
    pub fn read(&mut self, found: Vec<ObjectUpdate>) -> Vec<Delta> {
        let left = self.left.take().unwrap_or_default();
        found
            .into_iter()
            .filter_map(|update| {
                let known = self.machines.contains_key(&update.obj) || left.contains(&update.obj);
                if known { None } else { self.apply(update) }
            })
            .collect()
    }
}
