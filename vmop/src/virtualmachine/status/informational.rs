//! Conditions that don't affect `Ready`: guest, pending resize, location, pause and conditions that admins add.

use api::conditions::{self, Condition, INFO, vmop as known};
use api::names::annotation;
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use kube::ResourceExt;
use vsphere::Vm;

use crate::pause;
use crate::virtualmachine::bootstrap::conditions::customization_condition;
use crate::virtualmachine::bootstrap::report::bootstrap_condition;
use crate::virtualmachine::condition_types;
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::placement::conditions::location_condition;
use crate::virtualmachine::power::conditions::restart_condition;
use crate::virtualmachine::readiness::tools_condition;
use crate::virtualmachine::size::conditions::{class_condition, hardware_condition};
use crate::virtualmachine::storage::conditions::promotion_condition;

/// Returns the informational conditions for an existing VM.
pub fn informational_conditions(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    facts: Option<&Facts>,
) -> Vec<Condition> {
    let size = facts.and_then(|facts| facts.runtime.size.as_ref());
    let placement = facts.and_then(|facts| facts.runtime.placement.as_ref());
    let promotion = facts.and_then(|facts| facts.promotion.as_ref());
    let report_timeout = facts.and_then(|facts| facts.runtime.report_timeout);
    let all = [
        Some(tools_condition(vsphere_vm)),
        customization_condition(vsphere_vm),
        bootstrap_condition(vm, vsphere_vm, report_timeout, facts.map(|facts| facts.now)),
        size.map(|size| class_condition(vm, vsphere_vm, size)),
        hardware_condition(vm, vsphere_vm),
        placement.map(|placement| location_condition(vsphere_vm, placement)),
        promotion.map(|promotion| promotion_condition(vm, vsphere_vm, promotion)),
        facts.and_then(|facts| restart_condition(vm, vsphere_vm, facts.now)),
        Some(pause_condition(vm, Some(vsphere_vm))),
    ];
    all.into_iter().flatten().collect()
}

/// Returns true if a condition of this type doesn't affect `Ready`: it is informational, or an admin defines it in an
/// annotation.
pub fn is_informational(vm: &VirtualMachine, type_: &str) -> bool {
    const INFORMATIONAL: [&str; 9] = [
        known::VIRTUAL_MACHINE_TOOLS,
        known::GUEST_CUSTOMIZATION,
        condition_types::GUEST_BOOTSTRAP,
        condition_types::CLASS_SYNCED,
        condition_types::COMPUTE_SYNCED,
        condition_types::LOCATION,
        condition_types::DISK_PROMOTION,
        condition_types::RESTART,
        condition_types::RECONCILE,
    ];
    INFORMATIONAL.contains(&type_)
        || vm.annotations().keys().any(|key| key.strip_prefix(annotation::PROTECTED_CONDITION) == Some(type_))
}

/// Adds the conditions that an admin defines in annotations. Invalid annotations are skipped, and computed conditions aren't
/// replaced.
pub fn add_protected(vm: &VirtualMachine, all: &mut Vec<Condition>) {
    for (key, value) in vm.annotations() {
        let Some(type_) = key.strip_prefix(annotation::PROTECTED_CONDITION) else { continue };
        let mut parts = value.splitn(4, ';').map(str::trim);
        let mut part = || parts.next().unwrap_or_default();
        let (named, status, reason, message) = (part(), part(), part(), part());
        let known = [conditions::TRUE, conditions::FALSE, "Unknown"].contains(&status);
        if named != type_ || !known || conditions::find(all, type_).is_some() {
            continue;
        }
        all.push(Condition {
            type_: type_.to_owned().into(),
            status: status.to_owned().into(),
            severity: (status == conditions::FALSE).then(|| INFO.to_owned()),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            message: Some(message.to_owned()).filter(|message| !message.is_empty()),
            ..Condition::default()
        });
    }
}

/// Returns the status of a paused VirtualMachine: unchanged, except for the pause condition.
pub fn paused_status(vm: &VirtualMachine) -> VirtualMachineStatus {
    let mut status = vm.status.clone().unwrap_or_default();
    status.conditions.retain(|condition| condition.type_ != condition_types::RECONCILE);
    status.conditions.push(pause_condition(vm, None));
    status
}

fn pause_condition(vm: &VirtualMachine, vsphere_vm: Option<&Vm>) -> Condition {
    let keys = pause::keys(vm, vsphere_vm);
    if keys.is_empty() {
        return Condition {
            reason: Some(known::VIRTUAL_MACHINE_RECONCILE_RUNNING.to_owned()),
            ..Condition::is_true(condition_types::RECONCILE)
        };
    }
    let message = format!("Reconciliation is paused. To resume it, remove {}", keys.join(" and "));
    Condition::is_false(condition_types::RECONCILE, INFO, known::VIRTUAL_MACHINE_RECONCILE_PAUSED, message)
}
