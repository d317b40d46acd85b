//! The disk promotion condition.

use api::conditions::{Condition, ERROR, INFO, WARNING, vmop as known};
use api::vmop::VirtualMachine;
use vsphere::Vm;

use super::promotion::{Promotion, PromotionState};
use crate::vcenter::settings::PromoteDisks;
use crate::virtualmachine::condition_types;

/// Returns the disk promotion condition. It is true if the VM's disks aren't linked to a template.
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
            let when = if promotion.mode == PromoteDisks::Offline {
                "it is powered off"
            } else {
                "it is powered on"
            };
            let message = format!("The VM's disks stay linked to the image's template until {when}");
            is_false(INFO, PENDING, &message)
        }
        PromotionState::Due(_) | PromotionState::Running => is_false(
            INFO,
            known::DISK_PROMOTION_RUNNING,
            "vCenter is promoting the VM's linked disks; the VM can be used meanwhile",
        ),
        PromotionState::Snapshots => is_false(
            INFO,
            PENDING,
            "The VM has snapshots, which depend on its linked disks. To have the disks promoted, remove the snapshots in vCenter",
        ),
        PromotionState::Retrying(why) => is_false(WARNING, known::DISK_PROMOTION_TRANSIENT_ERROR, why),
        PromotionState::Failed(why) => {
            let message = format!("{why}. VM Operator tries again when the spec of this object is changed");
            is_false(ERROR, known::DISK_PROMOTION_TASK_ERROR, &message)
        }
    }
}
