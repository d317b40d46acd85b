//! What must never be, whatever happened: VMs that are lost, duplicated or orphaned.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use sim::control::{InventoryModule, InventoryVm};

/// What is wrong, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Objects that say they have a VM, and have none; disks of others that are gone.
    pub lost: Vec<String>,
    /// VMs that are there twice.
    pub duplicated: Vec<String>,
    /// What belongs to nothing.
    pub orphaned: Vec<String>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.duplicated.is_empty() && self.orphaned.is_empty()
    }

    /// Everything that is wrong.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.lost.iter().chain(&self.duplicated).chain(&self.orphaned)
    }

    /// Judges an object by the VM that it names.
    pub fn judge_object(
        &mut self,
        kind: &str,
        name: &str,
        object: &Value,
        by_id: &HashMap<String, &InventoryVm>,
    ) {
        let Some(id) = object["status"]["uniqueID"].as_str().filter(|_| kind == "VirtualMachine") else {
            return;
        };
        let spec = object["spec"]["instanceUUID"].as_str().unwrap_or_default();
        match by_id.get(id) {
            None => self.lost.push(format!("{kind} {name} has lost its VM {id}")),
            Some(vm) if !vm.instance_uuid.eq_ignore_ascii_case(spec) => {
                self.lost.push(format!("{kind} {name} names {id}, which is another VM ({})", vm.name));
            }
            Some(_) => {}
        }
    }

    /// Judges the VMs of a namespace by the instance UUIDs of the objects there; templates are judged by the comparison of states.
    pub fn judge_vms(
        &mut self,
        vms: &[InventoryVm],
        owners: &BTreeSet<String>,
        paths: &HashMap<String, String>,
    ) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for vm in vms {
            if let Some(other) = seen.insert(&vm.uuid, &vm.moid) {
                self.duplicated.push(format!("{other} and {} have one BIOS UUID", vm.moid));
            }
            if vm.broken {
                self.lost.push(format!("{} ({}) rests on a disk that is gone", vm.name, vm.moid));
            }
            if !paths.contains_key(&vm.folder) {
                self.orphaned.push(format!("{} ({}) lies outside", vm.name, vm.moid));
            } else if !vm.template
                && !owners.contains(&vm.instance_uuid.to_lowercase())
                && !is_template_to_be(vm)
            {
                self.orphaned.push(format!("{} ({}) belongs to no object", vm.name, vm.moid));
            }
        }
    }

    /// Judges the cluster modules by those that policies have entered as foreign_folder.
    pub fn judge_modules(&mut self, modules: &[InventoryModule], entered: &BTreeSet<String>) {
        let strangers = modules.iter().filter(|module| !entered.contains(&module.id));
        self.orphaned
            .extend(strangers.map(|module| format!("cluster module {} belongs to no policy", module.id)));
    }

    /// Judges disks that were not made with a VM, and are gone.
    pub fn judge_disks(&mut self, destroyed: &[String]) {
        self.lost.extend(destroyed.iter().map(|disk| format!("disk {disk} of somebody else's is destroyed")));
    }

    /// Judges files and tasks that belong to nothing.
    pub fn judge_orphans(&mut self, orphans: &BTreeSet<String>) {
        self.orphaned.extend(orphans.iter().map(|one| format!("{one} belongs to nothing")));
    }
}

/// A template that is being made has no mark yet.
fn is_template_to_be(vm: &InventoryVm) -> bool {
    vm.name.starts_with(&crate::vms::node_image())
}
