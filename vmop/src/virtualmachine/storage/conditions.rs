//! Whether a VM's disks rest on a template still, where they shall not.

use api::conditions::{Condition, ERROR, INFO, WARNING, vmop as known};
use api::vmop::VirtualMachine;
use vsphere::Vm;

use super::promotion::{Promotion, PromotionState};
use crate::vcenter::settings::PromoteDisks;
use crate::virtualmachine::condition_types;

/// Whether the VM's disks rest on a template still, where they shall not.
pub fn promotion_condition(vm: &VirtualMachine, vsphere_vm: &Vm, promotion: &Promotion) -> Condition {
    const PENDING: &str = known::DISK_PROMOTION_PENDING;
    let is_false = |severity, reason, message: &str| {
        Condition::is_false(condition_types::DISK_PROMOTION, severity, reason, message)
    };
    match &promotion.state {
        PromotionState::Done | PromotionState::Finished => {
            Condition::is_true(condition_types::DISK_PROMOTION)
        }
        PromotionState::Due(_) if !promotion.fits(vm, vsphere_vm) => {
            let when = if promotion.mode == PromoteDisks::Offline { "it is powered off" } else { "it runs" };
            let message = format!("The VM's disks rest on the image's template until {when}");
            is_false(INFO, PENDING, &message)
        }
        PromotionState::Due(_) | PromotionState::Running => is_false(
            INFO,
            known::DISK_PROMOTION_RUNNING,
            "vCenter copies what the VM's disks rest on; the VM goes on meanwhile",
        ),
        PromotionState::Snapshots => is_false(
            INFO,
            PENDING,
            "The VM has snapshots, which rest on its linked disks. Remove them in vCenter to have the disks promoted",
        ),
        PromotionState::Retrying(why) => is_false(WARNING, known::DISK_PROMOTION_TRANSIENT_ERROR, why),
        PromotionState::Failed(why) => {
            let message = format!("{why}. It is tried again when this object's spec is changed");
            is_false(ERROR, known::DISK_PROMOTION_TASK_ERROR, &message)
        }
    }
}
