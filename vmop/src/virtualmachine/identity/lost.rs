//! What is known of a VM that was destroyed or removed in vCenter.

use api::conditions::{self, vmop as known};
use api::vmop::VirtualMachine;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use vsphere::{MoRef, Removal};

use crate::vcenter::VCenter;

/// How much older than its object the removal of a VM may be: the object may have been moved here since.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// The message of a VM that is lost: by the event of vCenter, else as it was reported before.
pub async fn describe_loss(vm: &VirtualMachine, vcenter: &VCenter) -> String {
    match last_removal(vm, vcenter).await {
        Some(removal) => loss_message(Some(&removal)),
        None => reported_loss(vm).map_or_else(|| loss_message(None), str::to_owned),
    }
}

/// The message of the condition, where it says already that the VM is lost: vCenter forgets its events.
fn reported_loss(vm: &VirtualMachine) -> Option<&str> {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::find(conditions, known::VIRTUAL_MACHINE_CREATED)
        .filter(|created| created.reason.as_deref() == Some(known::VIRTUAL_MACHINE_LOST))?
        .message
        .as_deref()
}

async fn last_removal(vm: &VirtualMachine, vcenter: &VCenter) -> Option<Removal> {
    let created = vm.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = created.and_then(|time: Timestamp| time.checked_sub(SLACK).ok());
    let datacenter = MoRef::datacenter(vcenter.settings.datacenter.as_str());
    match vcenter.client.removals(&datacenter, since).await {
        Ok(removals) => removals.into_iter().rev().find(|removal| is_of(vm, removal)),
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

/// The message of a VM that is gone, with the event of vCenter that tells of it, such as
/// `VmRemovedEvent at 2026-11-21T13:00:00Z by VSPHERE.LOCAL\Administrator`.
pub fn loss_message(removal: Option<&Removal>) -> String {
    let event = removal.map_or_else(String::new, |removal| {
        let at = removal.at.map_or_else(String::new, |at| format!(" at {at:.0}"));
        let by = if removal.user.is_empty() { String::new() } else { format!(" by {}", removal.user) };
        format!(" ({}{at}{by})", removal.event)
    });
    format!(
        "The VM was destroyed or removed in vCenter{event}, not by this object. Delete this VirtualMachine; its owner creates another"
    )
}
