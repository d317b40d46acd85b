//! Disks that rest on a golden template become the VM's own, where its object asks for it.
//!
//! vCenter copies what the disks rest on, for minutes or hours, and the VM goes on meanwhile: no reconcile waits for
//! it. What is still to be done is read from the disks themselves. Once none rests on a template, the VM's note
//! that it was cloned from one (`layercake.base`) is removed, and nothing is read any more.

use api::vmop::VirtualMachine;
use vsphere::inventory::PowerState;
use vsphere::{Disk, Vm};

use super::promotions::{PromotionProgress, Promotions};
use crate::pause;
use crate::vcenter::settings::PromoteDisks;
use crate::vcenter::{VCenter, mark};
use crate::virtualmachine::power::state::wanted_power;
use crate::virtualmachine::step::Step;

/// What becomes of a VM's linked disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// When they are promoted.
    pub mode: PromoteDisks,
    /// How far that is.
    pub state: PromotionState,
}

/// How far the promotion of a VM's disks is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionState {
    /// No disk rests on a template.
    Done,
    /// No disk rests on a template, and the VM still says that it was cloned from one.
    Finished,
    /// These disks rest on a template.
    Due(Vec<Disk>),
    /// Disks rest on a template, and the VM's snapshots on them.
    Snapshots,
    /// vCenter is at it.
    Running,
    /// It is tried again in a while; why it failed.
    Retrying(String),
    /// vCenter can't do it.
    Failed(String),
}

/// When the linked disks of the object's VM are promoted.
fn mode(vm: &VirtualMachine, vcenter: &VCenter) -> PromoteDisks {
    let asked = vm.spec.promote_disks_mode.as_deref().and_then(PromoteDisks::of);
    asked.unwrap_or(vcenter.settings.promote_disks)
}

/// What becomes of the VM's linked disks; nothing where nobody asks for anything.
pub async fn observe_promotion(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    vcenter: &VCenter,
    promotions: &Promotions,
) -> Option<Promotion> {
    let mode = mode(vm, vcenter);
    if mode == PromoteDisks::Disabled {
        return None;
    }
    let state = if mark::base(vsphere_vm).is_none() {
        PromotionState::Done
    } else {
        match promotions.progress(vm, &vsphere_vm.moref) {
            Some(PromotionProgress::Running) => PromotionState::Running,
            Some(PromotionProgress::Retrying(why)) => PromotionState::Retrying(why),
            Some(PromotionProgress::Failed(why)) => PromotionState::Failed(why),
            ended => match vcenter.devices(vsphere_vm).await {
                Ok(devices) => judge_disks(&devices.disks, ended.is_some()),
                Err(error) => PromotionState::Retrying(error.to_string()),
            },
        }
    };
    Some(Promotion { mode, state })
}

/// What is to be done with these disks, once vCenter has `ended` a promotion of them.
fn judge_disks(disks: &[Disk], ended: bool) -> PromotionState {
    let linked: Vec<_> = disks.iter().filter(|disk| is_linked(disk)).cloned().collect();
    if linked.is_empty() {
        PromotionState::Finished
    } else if linked.iter().any(has_snapshot) {
        PromotionState::Snapshots
    } else if ended {
        PromotionState::Failed(
            "vCenter reports that the disks are promoted, but they are still linked to a template".to_owned(),
        )
    } else {
        PromotionState::Due(linked)
    }
}

fn folder(file: &str) -> Option<&str> {
    Some(file.rsplit_once('/')?.0)
}

/// Whether a file lies where the disk's own does: a link leads elsewhere, a snapshot stays at home.
fn is_own(disk: &Disk, file: &str) -> bool {
    disk.file.as_deref().and_then(folder) == folder(file)
}

/// Whether the disk rests on another VM's; a first-class disk's chain is its storage provider's affair.
fn is_linked(disk: &Disk) -> bool {
    disk.first_class.is_none() && disk.parents.iter().any(|file| !is_own(disk, file))
}

fn has_snapshot(disk: &Disk) -> bool {
    disk.parents.iter().any(|file| is_own(disk, file))
}

impl Promotion {
    /// Whether the VM's power state is the mode's, and shall stay so.
    pub fn fits(&self, vm: &VirtualMachine, vsphere_vm: &Vm) -> bool {
        let wanted = match self.mode {
            PromoteDisks::Disabled => return false,
            PromoteDisks::Online => PowerState::On,
            PromoteDisks::Offline => PowerState::Off,
        };
        vsphere_vm.power_state == Some(wanted) && wanted_power(vm) == wanted
    }

    /// The disks that are to be promoted now.
    pub fn due(&self, vm: &VirtualMachine, vsphere_vm: &Vm) -> Option<&[Disk]> {
        match &self.state {
            PromotionState::Due(disks) if self.fits(vm, vsphere_vm) && !pause::by_admin(vsphere_vm) => {
                Some(disks)
            }
            _ => None,
        }
    }

    /// The step that removes the VM's note that it was cloned from a template.
    pub fn remove_note(&self) -> Option<Step> {
        let removed = || Step::set_options(vec![(mark::BASE.to_owned(), String::new())]);
        (self.state == PromotionState::Finished).then(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(file: &str, parents: &[&str]) -> Disk {
        Disk {
            file: Some(file.to_owned()),
            parents: parents.iter().map(|file| (*file).to_owned()).collect(),
            ..Disk::default()
        }
    }

    #[test]
    fn a_link_leads_elsewhere_and_a_snapshot_stays_at_home() {
        let own = disk("[ds] cp-0/data.vmdk", &[]);
        let linked = disk("[ds] cp-0/cp-0.vmdk", &["[ds] golden/golden.vmdk"]);
        let parents = ["[ds] cp-0/cp-0.vmdk", "[ds] golden/golden.vmdk"];
        let snapshot = disk("[ds] cp-0/cp-0-000001.vmdk", &parents);
        let own_snapshot = disk("[ds] cp-0/data-000001.vmdk", &["[ds] cp-0/data.vmdk"]);
        let volume = Disk { first_class: Some("fcd-1".into()), ..linked.clone() };
        let of = |disks: &[&Disk]| {
            judge_disks(&disks.iter().map(|disk| (*disk).clone()).collect::<Vec<_>>(), false)
        };
        assert_eq!(of(&[&own, &linked, &volume]), PromotionState::Due(vec![linked.clone()]));
        assert_eq!(of(&[&own, &own_snapshot, &volume]), PromotionState::Finished);
        assert_eq!(of(&[&own, &snapshot]), PromotionState::Snapshots);
        assert!(matches!(judge_disks(&[linked], true), PromotionState::Failed(_)), "once is enough");
    }
}
