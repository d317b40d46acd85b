//! Describes VMs that were destroyed or removed in vCenter.

use api::conditions::{self, vmop as known};
use api::vmop::VirtualMachine;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use vsphere::{MoRef, Removal};

use crate::vcenter::VCenter;

/// The maximum time by which a VM's removal may precede the creation of its VirtualMachine, which may have been moved to this
/// cluster after the removal.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// Returns the message about a lost VM. Reads vCenter's events, unless the VirtualMachine's condition already names the event.
pub async fn describe_loss(vm: &VirtualMachine, vcenter: &VCenter) -> String {
    match known_loss(vm) {
        Some(message) => message.to_owned(),
        None => loss_message(vm, find_last_removal(vm, vcenter).await.as_ref()),
    }
}

/// Returns the condition's message if it already names an event. The message is kept, because vCenter deletes old events.
fn known_loss(vm: &VirtualMachine) -> Option<&str> {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::find(conditions, known::VIRTUAL_MACHINE_CREATED)
        .filter(|created| created.reason.as_deref() == Some(known::VIRTUAL_MACHINE_LOST))?
        .message
        .as_deref()
        .filter(|message| *message != loss_message(vm, None))
}

async fn find_last_removal(vm: &VirtualMachine, vcenter: &VCenter) -> Option<Removal> {
    let created = vm.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = created.and_then(|time: Timestamp| time.checked_sub(SLACK).ok());
    let datacenter = MoRef::datacenter(vcenter.settings.datacenter.as_str());
    match vcenter.client.list_removals(&datacenter, since).await {
        Ok(removals) => removals.into_iter().rev().find(|removal| is_of(vm, removal)),
        Err(error) => {
            tracing::warn!(%error, "cannot read the events of vCenter");
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

/// Returns the message about a lost VM, with the vCenter event if known, such as `VmRemovedEvent at 2026-11-21T13:00:00Z by
/// VSPHERE.LOCAL\Administrator`. The message says who can replace the VM: the VirtualMachine's controller or the user.
pub fn loss_message(vm: &VirtualMachine, removal: Option<&Removal>) -> String {
    let event = removal.map_or_else(String::new, |removal| {
        let at = removal.at.map_or_else(String::new, |at| format!(" at {at:.0}"));
        let by = if removal.user.is_empty() { String::new() } else { format!(" by {}", removal.user) };
        format!(" ({}{at}{by})", removal.event)
    });
    let owners = vm.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true));
    let advice = owner.map_or_else(
        || "To get a new VM, delete this VirtualMachine and apply it again".to_owned(),
        |owner| format!("{} {} decides whether to replace it", owner.kind, owner.name),
    );
    format!("The VM was destroyed or removed in vCenter{event}, not by this object. {advice}")
}

#[cfg(test)]
mod tests {
    use api::conditions::{Condition, ERROR};

    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn a_loss_that_names_its_event_is_not_looked_up_again() {
        let removal = Removal {
            event: "VmRemovedEvent".to_owned(),
            at: "2026-11-21T13:00:00Z".parse().ok(),
            user: "VSPHERE.LOCAL\\Administrator".to_owned(),
            name: "cp-0".to_owned(),
            vm: None,
        };
        let own = fixtures::virtual_machine();
        let known = loss_message(&own, Some(&removal));
        assert!(known.contains("(VmRemovedEvent at 2026-11-21T13:00:00Z by VSPHERE.LOCAL\\Administrator)"));
        for (message, kept) in [(known.clone(), Some(known)), (loss_message(&own, None), None)] {
            let (type_, reason) = (known::VIRTUAL_MACHINE_CREATED, known::VIRTUAL_MACHINE_LOST);
            let mut vm = fixtures::virtual_machine();
            vm.status.get_or_insert_default().conditions =
                vec![Condition::is_false(type_, ERROR, reason, message)];
            assert_eq!(known_loss(&vm), kept.as_deref());
        }
    }
}
