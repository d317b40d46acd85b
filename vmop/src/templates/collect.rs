//! Destroys unused golden templates.
//!
//! A template is unused if no image has its content, no VM records it as its base, and no disk in the datacenter depends on its
//! disks. The inventory contains the bases that VMs record, but these records can be out of date, so all disks are read before
//! a template is destroyed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use vsphere::{Devices, Error, Kind, MoRef, VirtualDisk, Vm};

use super::cache::TemplateCache;
use crate::vcenter::{VCenter, mark};

/// The delay between an event that may make a template unused and its collection. Plans from before the event complete
/// in this time, and a burst of events costs one collection.
pub const COLLECT_DELAY: Duration = Duration::from_mins(10);
/// The number of VMs whose disks are read in one call.
const BATCH: usize = 100;

/// Destroys this stack's unused templates, and returns their names. `needed` receives a library item's id and a content
/// version, and returns true if templates with this content must be kept.
pub async fn collect(
    templates: &TemplateCache,
    vcenter: &VCenter,
    needed: impl Fn(&str, &str) -> bool,
) -> Result<Vec<String>, Error> {
    let candidates = idle(vcenter, needed);
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(vm) = vcenter.inventory.all().into_iter().find(|vm| !vm.is_available()) {
        return Err(undecidable(&vm.moref));
    }
    let vms = vms(vcenter).await?;
    let mut gone = Vec::new();
    for template in candidates {
        let Some(own) = vms.iter().find(|(moref, _)| *moref == template.moref) else { continue };
        let files: HashSet<&str> = own.1.iter().flat_map(files).collect();
        let others = vms.iter().filter(|(moref, _)| *moref != template.moref);
        let mut rested_on = others.flat_map(|(_, disks)| disks).flat_map(|disk| disk.parents.iter());
        if rested_on.any(|file| files.contains(file.as_str())) || busy(vcenter, &template.moref).await? {
            tracing::info!(template = template.name, "no image needs the template, but VMs are linked to it");
            continue;
        }
        tracing::info!(template = template.name, "destroying the template: nothing needs it");
        vcenter.destroy(&template.moref).await?;
        templates.forget(&template.moref);
        gone.push(template.name.clone());
    }
    Ok(gone)
}

/// Returns the templates that are unused according to the inventory.
fn idle(vcenter: &VCenter, needed: impl Fn(&str, &str) -> bool) -> Vec<Arc<Vm>> {
    let all = vcenter.inventory.all();
    let bases: HashSet<&str> = all.iter().filter_map(|vm| mark::base(vm)).collect();
    let needless = |vm: &Vm| {
        let made_of = mark::template_content(vm, &vcenter.settings.stack);
        vm.template && made_of.is_some_and(|(item, content)| !needed(item, content))
    };
    all.iter().filter(|vm| needless(vm) && !bases.contains(vm.name.as_str())).cloned().collect()
}

/// Returns the names of this stack's templates whose content isn't `needed` and which a known VM doesn't record as its base.
pub fn unused(vcenter: &VCenter, needed: impl Fn(&str, &str) -> bool) -> Vec<String> {
    idle(vcenter, needed).iter().map(|template| template.name.clone()).collect()
}

/// Returns all VMs in the datacenter with their disks. Fails if a VM's disks can't be read, because they may depend on
/// a template.
async fn vms(vcenter: &VCenter) -> Result<Vec<(MoRef, Vec<VirtualDisk>)>, Error> {
    const DEVICES: &str = "config.hardware.device";
    let mut all = listed_vms(vcenter).await?;
    all.extend(vcenter.inventory.all().iter().map(|vm| vm.moref.clone()));
    all.sort_unstable();
    all.dedup();
    let mut vms = Vec::with_capacity(all.len());
    for batch in all.chunks(BATCH) {
        // If a VM is deleted meanwhile, only this collection fails.
        let read = vcenter.client.retrieve(batch, &[DEVICES]).await?;
        let unread =
            |moref: &&MoRef| !read.iter().any(|vm| vm.obj == **moref && !vm.get(DEVICES).items().is_empty());
        if let Some(unread) = batch.iter().find(unread) {
            return Err(undecidable(unread));
        }
        vms.extend(read.into_iter().map(|vm| {
            let disks = Devices::read("", vm.get(DEVICES)).disks;
            (vm.obj, disks)
        }));
    }
    Ok(vms)
}

/// Returns the VMs that the datacenter's datastores list. Fails if a datastore isn't accessible.
async fn listed_vms(vcenter: &VCenter) -> Result<Vec<MoRef>, Error> {
    const ACCESSIBLE: &str = "summary.accessible";
    let datacenter = MoRef::datacenter(vcenter.settings.datacenter.as_str());
    let stores =
        vcenter.client.retrieve_members(&datacenter, "datastore", "Datastore", &["vm", ACCESSIBLE]).await?;
    if let Some(away) = stores.iter().find(|store| store.get(ACCESSIBLE).as_bool() != Some(true)) {
        return Err(undecidable(&away.obj));
    }
    let on = stores.iter().flat_map(|store| store.get("vm").items()).filter_map(|vm| vm.as_moref().cloned());
    Ok(on.collect())
}

/// Returns the error for an object whose disks can't be read: they may depend on any template.
fn undecidable(object: &MoRef) -> Error {
    Error::new("RetrievePropertiesEx", Kind::InvalidState).on(object)
}

/// Returns true if vCenter is running a task on the template, such as a clone.
async fn busy(vcenter: &VCenter, template: &MoRef) -> Result<bool, Error> {
    let tasks = vcenter.client.retrieve_members(template, "recentTask", "Task", &["info.state"]).await?;
    Ok(tasks.iter().any(|task| matches!(task.get("info.state").as_str(), Some("running" | "queued"))))
}

fn files(disk: &VirtualDisk) -> impl Iterator<Item = &str> {
    disk.file.iter().chain(&disk.parents).map(String::as_str)
}
