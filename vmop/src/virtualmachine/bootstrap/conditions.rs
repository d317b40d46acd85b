//! The guest customization condition.

use api::conditions::{Condition, ERROR, INFO, vmop as known};
use vsphere::Vm;

/// Returns the guest customization condition, or `None` if vCenter doesn't report a known customization status.
pub fn customization_condition(vsphere_vm: &Vm) -> Option<Condition> {
    let customized = vsphere_vm.guest.customization.as_ref()?;
    let underway =
        |reason, message: &str| Condition::is_false(known::GUEST_CUSTOMIZATION, INFO, reason, message);
    Some(match customized.status.as_str() {
        "TOOLSDEPLOYPKG_PENDING" => {
            underway(known::GUEST_CUSTOMIZATION_PENDING, "The guest will be customised at its next start")
        }
        "TOOLSDEPLOYPKG_RUNNING" => {
            underway(known::GUEST_CUSTOMIZATION_RUNNING, "The guest is being customised")
        }
        "TOOLSDEPLOYPKG_SUCCEEDED" => Condition {
            reason: Some(known::GUEST_CUSTOMIZATION_SUCCEEDED.to_owned()),
            ..Condition::is_true(known::GUEST_CUSTOMIZATION)
        },
        "TOOLSDEPLOYPKG_FAILED" => {
            let why = customized.error.as_deref().unwrap_or("vCenter gives no reason");
            let message = format!(
                "The guest could not be customised: {why}. Check the logs in /var/log/vmware-imc (Windows: C:\\Windows\\Temp\\vmware-imc) in the guest"
            );
            Condition::is_false(known::GUEST_CUSTOMIZATION, ERROR, known::GUEST_CUSTOMIZATION_FAILED, message)
        }
        _ => return None,
    })
}
