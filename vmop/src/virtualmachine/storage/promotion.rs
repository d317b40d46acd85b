//! Promotes disks that are linked to a golden template: vCenter copies the template's data, so that the VM is independent.
//!
//! A promotion takes minutes or hours. The VM keeps running, and reconciles don't wait for it. The disks themselves show what
//! remains to be done. Once none of them is linked, the VM's `layercake.base` note, which names the template, is removed,
//! and the disks aren't read any more.

use api::vmop::VirtualMachine;
use vsphere::inventory::PowerState;
use vsphere::{VirtualDisk, Vm};

use super::promotions::{PromotionProgress, Promotions};
use crate::pause;
use crate::vcenter::settings::PromoteDisks;
use crate::vcenter::{VCenter, mark};
use crate::virtualmachine::power::state::wanted_power;
use crate::virtualmachine::step::Step;

/// The promotion of a VM's linked disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The power state in which the disks are promoted.
    pub mode: PromoteDisks,
    pub state: PromotionState,
}

/// The state of a disk promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionState {
    /// The VM doesn't have linked disks.
    Done,
    /// The VM doesn't have linked disks, but still has the note that it was cloned from a template.
    Finished,
    /// These disks are linked to a template.
    Due(Vec<VirtualDisk>),
    /// The linked disks have snapshots, which depend on the template.
    Snapshots,
    /// vCenter is promoting the disks.
    Running,
    /// The promotion failed with this message and is retried after a delay.
    Retrying(String),
    /// The promotion failed with this message, and isn't retried until the VirtualMachine changes.
    Failed(String),
}

/// Returns the promotion mode in the spec, or the default in the provider configuration.
fn mode(vm: &VirtualMachine, vcenter: &VCenter) -> PromoteDisks {
    let asked = vm.spec.promote_disks_mode.as_deref().and_then(PromoteDisks::of);
    asked.unwrap_or(vcenter.settings.promote_disks)
}

/// Returns the promotion of the VM's linked disks, or `None` if promotion is disabled.
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

/// Returns the promotion state for these disks. `ended` means that vCenter reported the end of a promotion.
fn judge_disks(disks: &[VirtualDisk], ended: bool) -> PromotionState {
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

/// Returns true if a file is in the folder of the disk's own file. Snapshot files are in that folder, but template files
/// aren't.
fn is_own(disk: &VirtualDisk, file: &str) -> bool {
    disk.file.as_deref().and_then(folder) == folder(file)
}

/// Returns true if the disk is linked to another VM's disk. First-class disks don't count, because they belong to their storage
/// provider.
fn is_linked(disk: &VirtualDisk) -> bool {
    disk.first_class.is_none() && disk.parents.iter().any(|file| !is_own(disk, file))
}

fn has_snapshot(disk: &VirtualDisk) -> bool {
    disk.parents.iter().any(|file| is_own(disk, file))
}

impl Promotion {
    /// Returns true if the VM is in the mode's power state and should remain there.
    pub fn fits(&self, vm: &VirtualMachine, vsphere_vm: &Vm) -> bool {
        let wanted = match self.mode {
            PromoteDisks::Disabled => return false,
            PromoteDisks::Online => PowerState::On,
            PromoteDisks::Offline => PowerState::Off,
        };
        vsphere_vm.power_state == Some(wanted) && wanted_power(vm) == wanted
    }

    /// Returns the disks to promote now, if the VM is in the mode's power state and an admin hasn't paused it.
    pub fn due(&self, vm: &VirtualMachine, vsphere_vm: &Vm) -> Option<&[VirtualDisk]> {
        match &self.state {
            PromotionState::Due(disks) if self.fits(vm, vsphere_vm) && !pause::by_admin(vsphere_vm) => {
                Some(disks)
            }
            _ => None,
        }
    }

    /// Returns the step that removes the note about the VM's template, once the VM doesn't have linked disks.
    pub fn remove_note(&self) -> Option<Step> {
        let removed = || Step::set_options(vec![(mark::BASE.to_owned(), String::new())]);
        (self.state == PromotionState::Finished).then(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(file: &str, parents: &[&str]) -> VirtualDisk {
        VirtualDisk {
            file: Some(file.to_owned()),
            parents: parents.iter().map(|file| (*file).to_owned()).collect(),
            ..VirtualDisk::default()
        }
    }

    #[test]
    fn a_link_leads_elsewhere_and_a_snapshot_stays_at_home() {
        let own = disk("[ds] cp-0/data.vmdk", &[]);
        let linked = disk("[ds] cp-0/cp-0.vmdk", &["[ds] golden/golden.vmdk"]);
        let parents = ["[ds] cp-0/cp-0.vmdk", "[ds] golden/golden.vmdk"];
        let snapshot = disk("[ds] cp-0/cp-0-000001.vmdk", &parents);
        let own_snapshot = disk("[ds] cp-0/data-000001.vmdk", &["[ds] cp-0/data.vmdk"]);
        let volume = VirtualDisk { first_class: Some("fcd-1".into()), ..linked.clone() };
        let of = |disks: &[&VirtualDisk]| {
            judge_disks(&disks.iter().map(|disk| (*disk).clone()).collect::<Vec<_>>(), false)
        };
        assert_eq!(of(&[&own, &linked, &volume]), PromotionState::Due(vec![linked.clone()]));
        assert_eq!(of(&[&own, &own_snapshot, &volume]), PromotionState::Finished);
        assert_eq!(of(&[&own, &snapshot]), PromotionState::Snapshots);
        assert!(matches!(judge_disks(&[linked], true), PromotionState::Failed(_)), "once is enough");
    }
}
