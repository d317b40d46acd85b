//! What the guest made of its bootstrap data.

use api::conditions::{Condition, ERROR, INFO, WARNING, vmop as known};
use vsphere::Vm;

use crate::virtualmachine::condition_types;

/// ExtraConfig: what the guest reports by itself, as `true|false[,reason[,message]]`.
const GUEST_REPORT: &str = "guestinfo.vmservice.bootstrap.condition";

/// How the guest's customisation goes; nothing where there is none.
pub fn customization_condition(vsphere_vm: &Vm) -> Option<Condition> {
    let customized = vsphere_vm.guest.customization.as_ref()?;
    let underway =
        |reason, message: &str| Condition::is_false(known::GUEST_CUSTOMIZATION, INFO, reason, message);
    Some(match customized.status.as_str() {
        "TOOLSDEPLOYPKG_PENDING" => {
            underway(known::GUEST_CUSTOMIZATION_PENDING, "The guest is customised at its next start")
        }
        "TOOLSDEPLOYPKG_RUNNING" => {
            underway(known::GUEST_CUSTOMIZATION_RUNNING, "The guest is being customised")
        }
        "TOOLSDEPLOYPKG_SUCCEEDED" => Condition {
            reason: Some(known::GUEST_CUSTOMIZATION_SUCCEEDED.to_owned()),
            ..Condition::is_true(known::GUEST_CUSTOMIZATION)
        },
        "TOOLSDEPLOYPKG_FAILED" => {
            let why = customized.error.as_deref().unwrap_or("vCenter does not say why");
            let message = format!(
                "The guest could not be customised: {why}. Look into /var/log/vmware-imc (Windows: C:\\Windows\\Temp\\vmware-imc) in the guest"
            );
            Condition::is_false(known::GUEST_CUSTOMIZATION, ERROR, known::GUEST_CUSTOMIZATION_FAILED, message)
        }
        _ => return None,
    })
}

/// What the guest says of its own bootstrap.
pub fn bootstrap_condition(vsphere_vm: &Vm) -> Option<Condition> {
    let reported = vsphere_vm.extra_config.get(GUEST_REPORT)?;
    let mut parts = reported.splitn(3, ',').map(str::trim);
    let status = parts.next()?;
    let reason = parts.next().filter(|reason| !reason.is_empty());
    let message = parts.next().filter(|message| !message.is_empty()).map(str::to_owned);
    Some(if status.eq_ignore_ascii_case("true") {
        let reason = reason.map(str::to_owned);
        Condition { reason, message, ..Condition::is_true(condition_types::GUEST_BOOTSTRAP) }
    } else {
        let mut condition = Condition::is_false(
            condition_types::GUEST_BOOTSTRAP,
            WARNING,
            reason.unwrap_or("False"),
            String::new(),
        );
        condition.message = message;
        condition
    })
}
