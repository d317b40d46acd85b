//! Since when a machine is lost, and by whose doing.

use api::conditions::{self, vmop as known};
use api::vmop::VirtualMachine;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use vsphere::{MoRef, Removal};

use crate::vcenter::VCenter;
use crate::virtualmachine::plan::Blocked;

/// How much older than its object a machine's removal may be: the object may have been moved here since.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// Since when the machine is gone and by whose doing: as was told already, else by one question to vCenter.
pub async fn how(vm: &VirtualMachine, vcenter: &VCenter) -> Option<String> {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let told = conditions::find(conditions, known::VIRTUAL_MACHINE_CREATED)
        .filter(|told| told.reason.as_deref() == Some(known::VIRTUAL_MACHINE_LOST))
        .and_then(|told| Blocked::how_lost(told.message.as_deref()?));
    if told.is_some() {
        return told;
    }
    let created = vm.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = created.and_then(|time: Timestamp| time.checked_sub(SLACK).ok());
    let datacenter = MoRef::datacenter(vcenter.settings.datacenter.as_str());
    match vcenter.client.removals(&datacenter, since).await {
        Ok(removals) => removals.iter().rev().find(|removal| is_of(vm, removal)).map(said),
        Err(error) => {
            tracing::warn!(%error, "the events of vCenter can't be read");
            None
        }
    }
}

fn is_of(vm: &VirtualMachine, removal: &Removal) -> bool {
    let id = vm.status.as_ref().and_then(|status| status.unique_id.as_deref());
    match (id, &removal.vm) {
        (Some(id), Some(removed)) => removed.id() == id,
        _ => removal.name == vm.name_any(),
    }
}

/// `VmRemovedEvent at 2026-11-21T13:00:00Z by VSPHERE.LOCAL\Administrator`.
fn said(removal: &Removal) -> String {
    let at = removal.at.map_or_else(String::new, |at| format!(" at {at:.0}"));
    let by = if removal.user.is_empty() { String::new() } else { format!(" by {}", removal.user) };
    format!("{}{at}{by}", removal.event)
}
