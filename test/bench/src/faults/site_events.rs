//! Site events in a trial: outages, swapped disks, moved VMs and folders, and a vCenter that is restored from a
//! backup. The trial reverts them after the storm.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use sim::control::{FaultKind, FaultRule, InventorySnapshot, PowerAction};
use tokio::time::Instant;

use super::environment::list_objects;
use super::expected::{VM, has_claim};
use super::foreign_disks::foreign_folder;
use super::schedule::FaultEvent;
use super::state::CanonicalState;
use super::trial::Trial;

/// The time within which objects must know all VMs in vCenter. Otherwise vCenter isn't restored.
const KNOWN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Trial<'_> {
    /// Applies a site event. Returns `Some(false)` if it isn't possible, and `None` if the VM doesn't exist yet.
    pub(super) async fn apply_to_site(&self, event: &FaultEvent) -> Result<Option<bool>> {
        let control = self.environment.testbed.control();
        match event {
            FaultEvent::SwappedDisk(number) => return self.swap_disk(*number).await,
            FaultEvent::Moved(number) => return self.move_away(*number).await,
            FaultEvent::Unset(number, state) => {
                let Some(id) = self.vm_id(*number).await? else { return Ok(Some(false)) };
                return Ok(Some(control.set_vm_state(&id, state).await.is_ok()));
            }
            FaultEvent::HostAway(number) => {
                let Some(id) = self.vm_id(*number).await? else { return Ok(Some(false)) };
                let inventory = control.inventory().await?;
                let Some(vm) = inventory.vms.iter().find(|vm| vm.moid == id) else { return Ok(Some(false)) };
                control.set_host_state(&vm.host, "notResponding").await?;
            }
            FaultEvent::DatastoreAway => {
                let datastore = &self.environment.testbed.vcenter().datastore;
                control.set_datastore_accessible(datastore, false).await?;
            }
            FaultEvent::OutagesOver => control.end_outages().await?,
            FaultEvent::FolderMoved(whose) => return self.change_folder(whose, true).await,
            FaultEvent::FolderRenamed(whose) => return self.change_folder(whose, false).await,
            FaultEvent::ClockSet(offset) => control.set_clock(*offset).await?,
            FaultEvent::BackupTaken => {
                control.take_backup().await?;
                self.undone.borrow_mut().backup = true;
            }
            FaultEvent::Restored => return self.restore().await,
            _ => return Ok(Some(false)),
        }
        Ok(Some(true))
    }

    /// Destroys the VM's last disk and attaches a foreign disk in its place. Skips VMs whose object is deleted.
    async fn swap_disk(&self, number: usize) -> Result<Option<bool>> {
        let expected = self.expected.borrow()[number].clone();
        // Some VMs' last disk is already a foreign disk.
        if expected.deleted || expected.disk_attached.is_some() || has_claim(number) {
            return Ok(Some(false));
        }
        let Some(id) = self.vm_id(number).await? else { return Ok(self.postpone(number)) };
        let folder = foreign_folder(&self.namespace.name, &super::expected::vm_name(number));
        let done = self.environment.disks.swap_disk(&id, &folder).await.is_ok();
        if done {
            let expected = &mut self.expected.borrow_mut()[number];
            (expected.disk_attached, expected.disk_swapped) = (Some(Instant::now()), true);
        }
        Ok(Some(done))
    }

    /// Moves the VM out of its folder until the storm is over.
    async fn move_away(&self, number: usize) -> Result<Option<bool>> {
        // Don't postpone this event: after the storm, the move wouldn't be reverted.
        let Some(id) = self.vm_id(number).await? else { return Ok(Some(false)) };
        let control = self.environment.testbed.control();
        let inventory = control.inventory().await?;
        let Some(vm) = inventory.vms.iter().find(|vm| vm.moid == id) else { return Ok(Some(false)) };
        let top = &self.environment.testbed.vcenter().folder;
        if vm.folder == *top {
            return Ok(Some(false));
        }
        let done = control.relocate(&id, top).await.is_ok();
        if done {
            self.undone.borrow_mut().vms.push((id, vm.folder.clone()));
        }
        Ok(Some(done))
    }

    /// Moves or renames a whole folder until the storm is over.
    async fn change_folder(&self, whose: &str, moved: bool) -> Result<Option<bool>> {
        let control = self.environment.testbed.control();
        let inventory = control.inventory().await?;
        let (id, below) = (&self.namespace.folder, &self.environment.testbed.vcenter().folder);
        let is_wanted = |folder: &&sim::control::InventoryNode| match whose {
            "namespace" => folder.moid == *id,
            _ => folder.parent == *id,
        };
        let Some(folder) = inventory.folders.iter().find(is_wanted) else { return Ok(Some(false)) };
        let outside = inventory.folders.iter().find(|folder| folder.moid == *below);
        let done = if moved {
            // The VM operator doesn't look for the policy's folder beside the namespace's folder.
            let Some(target) = outside.map(|top| if whose == "namespace" { &top.parent } else { &top.moid })
            else {
                return Ok(Some(false));
            };
            control.relocate_folder(&folder.moid, target).await.is_ok()
        } else {
            control.rename_folder(&folder.moid, &format!("{}-renamed", folder.name)).await.is_ok()
        };
        if done {
            let before = (folder.moid.clone(), folder.parent.clone(), folder.name.clone());
            self.undone.borrow_mut().folders.push(before);
        }
        Ok(Some(done))
    }

    /// Restores vCenter from the backup. First holds back new clones and waits until each object knows its VM: the VM
    /// operator would create a VM again if neither the object nor the restored vCenter knew it.
    async fn restore(&self) -> Result<Option<bool>> {
        if !self.undone.borrow().backup {
            return Ok(Some(false));
        }
        let control = self.environment.testbed.control();
        let parked =
            control.plant(&FaultRule::once("CloneVM_Task", FaultKind::ParkCall).times(10_000)).await?;
        let deadline = Instant::now() + KNOWN;
        let mut known = self.knows_all_vms().await?;
        while !known && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
            known = self.knows_all_vms().await?;
        }
        if known {
            let inventory = control.inventory().await?;
            let lay = inventory.vms.iter().map(|vm| (vm.instance_uuid.clone(), vm.folder.clone())).collect();
            control.restore_backup().await?;
            self.undone.borrow_mut().lay = Some(lay);
            self.expected.borrow_mut().iter_mut().for_each(|expected| expected.history_forgotten = true);
        }
        control.remove_faults(Some(&parked)).await?;
        Ok(Some(known))
    }

    /// Returns true if no clone task is running and each object with a VM in vCenter names it in its status.
    async fn knows_all_vms(&self) -> Result<bool> {
        let control = self.environment.testbed.control();
        if !control.orphaned_files().await?.tasks.is_empty() {
            return Ok(false);
        }
        let inventory = control.inventory().await?;
        let objects = list_objects(&self.environment.testbed.client(), VM, &self.namespace.name).await?;
        Ok(objects.values().all(|object| {
            let uuid = object["spec"]["instanceUUID"].as_str().unwrap_or_default();
            let there = inventory.vms.iter().any(|vm| vm.instance_uuid.eq_ignore_ascii_case(uuid));
            !there || object["status"]["uniqueID"].is_string()
        }))
    }

    /// Reverts all site events.
    pub(super) async fn undo_site_events(&self) -> Result<()> {
        let control = self.environment.testbed.control();
        control.end_outages().await?;
        control.set_clock(0).await?;
        let undone = self.undone.take();
        for (folder, parent, name) in &undone.folders {
            drop(control.relocate_folder(folder, parent).await);
            drop(control.rename_folder(folder, name).await);
        }
        for (vm, folder) in &undone.vms {
            drop(control.relocate(vm, folder).await);
        }
        let Some(lay) = undone.lay else { return Ok(()) };
        let known: BTreeSet<_> = uuids(&control.inventory().await?);
        control.reconnect_hosts().await?;
        let inventory = control.inventory().await?;
        let discovered: BTreeSet<_> = uuids(&inventory).difference(&known).cloned().collect();
        for vm in &inventory.vms {
            if vm.connection_state == "orphaned" {
                control.power(&vm.moid, PowerAction::Unregister).await?;
            }
            if discovered.contains(&vm.instance_uuid) && !vm.template {
                let before = lay.get(&vm.instance_uuid).map_or("", String::as_str);
                let outside = *before == *self.environment.testbed.vcenter().folder;
                if outside || control.relocate(&vm.moid, before).await.is_err() {
                    drop(control.relocate(&vm.moid, &self.namespace.folder).await);
                }
            }
        }
        self.undone.borrow_mut().discovered = discovered;
        Ok(())
    }

    /// Destroys VMs that were discovered on hosts after their objects were deleted. The VM operator doesn't destroy
    /// them, and their folders can't be removed before. Detaches claim disks first, because the storage provider
    /// couldn't do so while the VMs were unknown to vCenter.
    pub(super) async fn remove_ownerless(&self) -> Result<()> {
        let discovered = self.undone.borrow().discovered.clone();
        let control = self.environment.testbed.control();
        let objects = list_objects(&self.environment.testbed.client(), VM, &self.namespace.name).await?;
        let owned = |uuid: &str| {
            let of = |object: &Value| object["spec"]["instanceUUID"].as_str().map(str::to_lowercase);
            objects.values().filter_map(of).any(|own| own == uuid.to_lowercase())
        };
        for vm in control.inventory().await?.vms {
            if discovered.contains(&vm.instance_uuid) && !vm.template && !owned(&vm.instance_uuid) {
                for disk in control.disks().await?.into_iter().filter(|disk| disk.vm == vm.moid) {
                    drop(control.detach_disk(&vm.moid, &disk.id).await);
                }
                // The VM operator may be destroying it already, so ignore errors.
                drop(control.power(&vm.moid, PowerAction::Destroy).await);
            }
        }
        Ok(())
    }

    /// Removes from the findings VMs that were discovered on hosts after their objects were deleted: the VM operator
    /// reports them as orphans, and an administrator removes them. Ignores a discovered template too.
    pub(super) fn forgive_discovered(&self, state: &mut CanonicalState, inventory: &InventorySnapshot) {
        let undone = self.undone.borrow();
        let found: Vec<_> =
            inventory.vms.iter().filter(|vm| undone.discovered.contains(&vm.instance_uuid)).collect();
        let is_one = |orphan: &String| found.iter().any(|vm| orphan.contains(&format!("({})", vm.moid)));
        state.findings.orphaned.retain(|orphan| !is_one(orphan));
        let is_spare = |path: &String, vm: &Value| {
            vm["template"] == true && found.iter().any(|one| path.ends_with(&format!("/{}", one.name)))
        };
        // If no VM needed a new template meanwhile, the discovered template is the only one.
        if state.vms.values().filter(|vm| vm["template"] == true).count() < 2 {
            return;
        }
        state.vms.retain(|path, vm| !(path.starts_with("elsewhere/") && is_spare(path, vm)));
    }
}

fn uuids(inventory: &InventorySnapshot) -> BTreeSet<String> {
    inventory.vms.iter().map(|vm| vm.instance_uuid.clone()).collect()
}
