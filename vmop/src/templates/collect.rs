//! Golden templates that nothing needs any more are destroyed.
//!
//! A template goes only if no image has its content, no VM says that it was made from it, and no
//! disk in the datacenter rests on its disks. The VMs' own word comes from the stream and costs
//! nothing; it can be out of date, so before anything is destroyed the disks themselves are asked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use vsphere::{Devices, Disk, Error, Kind, MoRef, Vm};

use super::cache::TemplateCache;
use crate::vcenter::{VCenter, mark};

/// So long a template is left after something happened that may have made it needless: what was planned
/// before has ended by then, and a burst of events costs one look.
pub const COLLECT_DELAY: Duration = Duration::from_mins(10);
/// VMs whose disks are read in one call.
const BATCH: usize = 100;

/// Destroys the templates of this stack whose content is not `needed` and on which nothing rests; which they were.
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

/// Templates that nobody is known to need, by what is cached.
fn idle(vcenter: &VCenter, needed: impl Fn(&str, &str) -> bool) -> Vec<Arc<Vm>> {
    let all = vcenter.inventory.all();
    let bases: HashSet<&str> = all.iter().filter_map(|vm| mark::base(vm)).collect();
    let needless = |vm: &Vm| {
        let made_of = mark::template_content(vm, &vcenter.settings.stack);
        vm.template && made_of.is_some_and(|(item, content)| !needed(item, content))
    };
    all.iter().filter(|vm| needless(vm) && !bases.contains(vm.name.as_str())).cloned().collect()
}

/// The names of the templates of this stack whose content is not `needed` and from which no known VM was made.
pub fn unused(vcenter: &VCenter, needed: impl Fn(&str, &str) -> bool) -> Vec<String> {
    idle(vcenter, needed).iter().map(|template| template.name.clone()).collect()
}

/// Every VM of the datacenter with its disks. It fails where those of one can't be read: templates may be what they
/// rest on.
async fn vms(vcenter: &VCenter) -> Result<Vec<(MoRef, Vec<Disk>)>, Error> {
    const DEVICES: &str = "config.hardware.device";
    let mut all = listed_vms(vcenter).await?;
    all.extend(vcenter.inventory.all().iter().map(|vm| vm.moref.clone()));
    all.sort_unstable();
    all.dedup();
    let mut vms = Vec::with_capacity(all.len());
    for batch in all.chunks(BATCH) {
        // A VM that goes meanwhile fails this look, not the next one.
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

/// The VMs that the datastores of the datacenter list, if each can be looked into.
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

/// While vCenter can't read the disks of a VM, they may rest on any template.
fn undecidable(object: &MoRef) -> Error {
    Error::new("RetrievePropertiesEx", Kind::InvalidState).on(object)
}

/// Whether vCenter is at work on the template: a clone of it may run.
async fn busy(vcenter: &VCenter, template: &MoRef) -> Result<bool, Error> {
    let tasks = vcenter.client.retrieve_members(template, "recentTask", "Task", &["info.state"]).await?;
    Ok(tasks.iter().any(|task| matches!(task.get("info.state").as_str(), Some("running" | "queued"))))
}

fn files(disk: &Disk) -> impl Iterator<Item = &str> {
    disk.file.iter().chain(&disk.parents).map(String::as_str)
}
