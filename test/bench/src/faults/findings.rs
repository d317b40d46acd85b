//! Violations that no fault may cause: lost, duplicated and orphaned VMs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use sim::control::{InventoryModule, InventoryVm};

/// The violations, one description each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// Objects whose VM is gone, VMs whose disk is gone, and foreign disks that are gone.
    pub lost: Vec<String>,
    /// VMs that share a BIOS UUID.
    pub duplicated: Vec<String>,
    /// VMs, cluster modules, files and tasks without an owner.
    pub orphaned: Vec<String>,
}

impl Violations {
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.duplicated.is_empty() && self.orphaned.is_empty()
    }

    /// Returns all violations.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.lost.iter().chain(&self.duplicated).chain(&self.orphaned)
    }

    /// Checks that the VM that the object's status names exists and has the object's instance UUID.
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

    /// Checks a namespace's VMs against its objects' instance UUIDs (`owners`). Templates are checked when states are
    /// compared.
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

    /// Checks that each cluster module is recorded by a policy.
    pub fn judge_modules(&mut self, modules: &[InventoryModule], entered: &BTreeSet<String>) {
        let strangers = modules.iter().filter(|module| !entered.contains(&module.id));
        self.orphaned
            .extend(strangers.map(|module| format!("cluster module {} belongs to no policy", module.id)));
    }

    /// Reports foreign disks that are gone.
    pub fn judge_disks(&mut self, destroyed: &[String]) {
        self.lost.extend(destroyed.iter().map(|disk| format!("disk {disk} of somebody else's is destroyed")));
    }

    /// Reports files and tasks that don't belong to an object.
    pub fn judge_orphans(&mut self, orphans: &BTreeSet<String>) {
        self.orphaned.extend(orphans.iter().map(|one| format!("{one} belongs to nothing")));
    }
}

/// Returns true if the VM is a future template. A template isn't marked as one while it is being created.
fn is_template_to_be(vm: &InventoryVm) -> bool {
    vm.name.starts_with(&crate::vms::node_image())
}
