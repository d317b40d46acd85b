//! Disks that rest on a golden template are made the machine's own, where its object asks for it.
//!
//! vCenter copies what the disks rest on, for minutes or hours, and the machine goes on meanwhile: no pass waits for
//! it. What is still to be done is read from the disks themselves. Once none rests on a template, the machine's word
//! that it was made from one (`layercake.base`) is taken back, and nothing is read any more.

use api::vmop::VirtualMachine;
use vsphere::inventory::PowerState;
use vsphere::{ConfigSpec, Disk, Vm};

use crate::pause;
use crate::vcenter::settings::PromoteDisks;
use crate::vcenter::{VCenter, mark};
use crate::virtualmachine::carry_out::promotion::{Progress, Promotions};
use crate::virtualmachine::plan::{Facts, Found};
use crate::virtualmachine::power;
use crate::virtualmachine::step::Step;

/// What becomes of a machine's linked disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// When they are promoted.
    pub mode: PromoteDisks,
    /// How far that is.
    pub state: State,
}

/// How far the promotion of a machine's disks is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No disk rests on a template.
    Done,
    /// No disk rests on a template, and the machine still says that it was made from one.
    Unnoted,
    /// These disks rest on a template.
    Due(Vec<Disk>),
    /// Disks rest on a template, and the machine's snapshots on them.
    Snapshots,
    /// vCenter is at it.
    Running,
    /// It is tried again in a while; why it failed.
    Passing(String),
    /// vCenter can't do it.
    Failed(String),
}

/// When the linked disks of the object's machine are promoted.
fn mode(vm: &VirtualMachine, vcenter: &VCenter) -> PromoteDisks {
    let asked = vm.spec.promote_disks_mode.as_deref().and_then(PromoteDisks::of);
    asked.unwrap_or(vcenter.settings.promote_disks)
}

/// What becomes of the machine's linked disks; nothing where nobody asks for anything.
pub async fn of(
    vm: &VirtualMachine,
    machine: &Vm,
    vcenter: &VCenter,
    promotions: &Promotions,
) -> Option<Promotion> {
    let mode = mode(vm, vcenter);
    if mode == PromoteDisks::Disabled {
        return None;
    }
    let state = if mark::base(machine).is_none() {
        State::Done
    } else {
        match promotions.of(vm, &machine.moref) {
            Some(Progress::Running) => State::Running,
            Some(Progress::Passing(why)) => State::Passing(why),
            Some(Progress::Failed(why)) => State::Failed(why),
            known => match vcenter.devices(machine).await {
                Ok(devices) => resting(&devices.disks, known.is_some()),
                Err(error) => State::Passing(error.to_string()),
            },
        }
    };
    Some(Promotion { mode, state })
}

/// What is to be done with these disks, once vCenter has `ended` a promotion of them.
fn resting(disks: &[Disk], ended: bool) -> State {
    let linked: Vec<_> = disks.iter().filter(|disk| is_linked(disk)).cloned().collect();
    if linked.is_empty() {
        State::Unnoted
    } else if linked.iter().any(has_snapshot) {
        State::Snapshots
    } else if ended {
        State::Failed(
            "vCenter says that the disks are promoted, and they still rest on a template".to_owned(),
        )
    } else {
        State::Due(linked)
    }
}

fn folder(file: &str) -> Option<&str> {
    Some(file.rsplit_once('/')?.0)
}

/// Whether a file lies where the disk's own does: a link leads elsewhere, a snapshot stays at home.
fn is_own(disk: &Disk, file: &str) -> bool {
    disk.file.as_deref().and_then(folder) == folder(file)
}

/// Whether the disk rests on another machine's; a first-class disk's chain is its storage provider's affair.
fn is_linked(disk: &Disk) -> bool {
    disk.first_class.is_none() && disk.parents.iter().any(|file| !is_own(disk, file))
}

fn has_snapshot(disk: &Disk) -> bool {
    disk.parents.iter().any(|file| is_own(disk, file))
}

impl Promotion {
    /// Whether the machine's power state is the mode's, and shall stay so.
    pub fn fits(&self, vm: &VirtualMachine, machine: &Vm) -> bool {
        let wanted = match self.mode {
            PromoteDisks::Disabled => return false,
            PromoteDisks::Online => PowerState::On,
            PromoteDisks::Offline => PowerState::Off,
        };
        machine.power_state == Some(wanted) && power::wanted(vm) == wanted
    }
}

/// The machine and its disks that are to be promoted now.
pub fn due<'a>(vm: &VirtualMachine, facts: &'a Facts) -> Option<(&'a Vm, &'a [Disk])> {
    let (Found::Ours(machine), Some(promotion)) = (&facts.found, &facts.promotion) else { return None };
    match &promotion.state {
        State::Due(disks) if promotion.fits(vm, machine) && !pause::by_admin(machine) => {
            Some((machine, disks.as_slice()))
        }
        _ => None,
    }
}

/// The step that takes the machine's word back that it was made from a template.
pub fn noted(promotion: Option<&Promotion>) -> Option<Step> {
    let unnoted = promotion.is_some_and(|promotion| promotion.state == State::Unnoted);
    let extra_config = || vec![(mark::BASE.to_owned(), String::new())].into();
    unnoted.then(|| {
        Step::Reconfigure(Box::new(ConfigSpec { extra_config: extra_config(), ..ConfigSpec::default() }))
    })
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
        let of =
            |disks: &[&Disk]| resting(&disks.iter().map(|disk| (*disk).clone()).collect::<Vec<_>>(), false);
        assert_eq!(of(&[&own, &linked, &volume]), State::Due(vec![linked.clone()]));
        assert_eq!(of(&[&own, &own_snapshot, &volume]), State::Unnoted);
        assert_eq!(of(&[&own, &snapshot]), State::Snapshots);
        assert!(matches!(resting(&[linked], true), State::Failed(_)), "once is enough");
    }
}
