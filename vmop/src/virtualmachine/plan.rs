//! What is to be done for a VM, from what is known. No client, no clock.

use std::sync::Arc;

use api::names::annotation;
use api::vmop::VirtualMachine;
use vsphere::inventory::PowerState;
use vsphere::{ConfigSpec, Vm};

use super::bootstrap::data::Bootstrap;
use super::clone::{ClonePlan, Parts, compose_clone};
use super::error::Blocked;
use super::facts::Facts;
use super::identity::find::Found;
use super::needs::{Creation, Needs};
use super::nic::change::NicChange;
use super::power::operation::{restart_due, restart_step};
use super::power::state::{checks, wanted_power};
use super::size::resize;
use super::step::{self, Mode, Step};
use super::storage::class::Storage;
use super::storage::promotion::Promotion;
use super::storage::{claims, disks};
use crate::device_check::hold_for_check;
use crate::pause;
use crate::unmet::Unmet;

/// What is to be done in vCenter.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Create the VM.
    Create {
        /// By this one call, which powers it on where nothing else has to be done before.
        clone: Box<ClonePlan>,
        /// What the clone can't do by itself.
        then: Vec<Step>,
    },
    /// Change the VM that exists.
    Change {
        /// The VM.
        vsphere_vm: Arc<Vm>,
        /// In this order.
        steps: Vec<Step>,
    },
    /// Nothing.
    Settled,
}

/// What is to be done for `vm`.
pub fn plan(vm: &VirtualMachine, facts: &Facts) -> Result<Plan, Blocked> {
    match &facts.found {
        Found::Unknown(problem) => Err(Blocked::Provider(problem.clone())),
        Found::Nowhere(unmet) => Err(Blocked::Unmet(unmet.clone())),
        Found::Claimed(claim) => Err(Blocked::Claimed(claim.clone())),
        Found::Lost(message) => Err(Blocked::Lost(message.clone())),
        Found::Unavailable(vsphere_vm) => Err(Blocked::Unavailable(Arc::clone(vsphere_vm))),
        Found::Moved(vsphere_vm) => Err(Blocked::Moved(vsphere_vm.moref.id().to_owned())),
        Found::Ours(vsphere_vm) => plan_change(vm, facts, vsphere_vm),
        Found::Absent => match &facts.creation {
            Some(creation) => plan_creation(vm, facts, creation),
            None => Ok(Plan::Settled),
        },
    }
}

/// The clone and what has to follow before the VM runs.
fn plan_creation(vm: &VirtualMachine, facts: &Facts, creation: &Creation) -> Result<Plan, Blocked> {
    let mut clone = plan_clone(vm, facts, creation)?;
    let least = vm.spec.min_hardware_version.and_then(|version| u32::try_from(version).ok());
    let mut then: Vec<_> = least.map(Step::Upgrade).into_iter().chain(join_module(facts)?).collect();
    if hold_for_check(&mut clone.spec, creation.proven_devices) {
        // The reconcile that finds the VM off reads its devices first.
    } else if clone.spec.power_on && (is_held_back(vm) || claims::has_claims(vm)) {
        clone.spec.power_on = false;
    } else if clone.spec.power_on && !then.is_empty() {
        clone.spec.power_on = false;
        then.push(Step::Power(PowerState::On, Mode::Hard));
    }
    if let Some(config) = &mut clone.spec.config {
        // A restart that was asked for before there was anything to restart is no more to be done.
        let asked = vm.spec.next_restart_time.as_deref().and_then(|time| time.parse().ok());
        config.extra_config.extend(asked.filter(|asked| *asked <= facts.now).map(step::restart_note));
    }
    Ok(Plan::Create { clone: Box::new(clone), then })
}

fn plan_clone(vm: &VirtualMachine, facts: &Facts, creation: &Creation) -> Result<ClonePlan, Blocked> {
    // No `..`: a need that nobody looks at must not compile.
    let Needs { class, image, storage, nics, bootstrap, placement } = &creation.needs;
    if let Some(unmet) = creation.needs.first_unmet() {
        return Err(Blocked::Unmet(unmet.clone()));
    }
    let unmet = |unmet: &Unmet| Blocked::Unmet(unmet.clone());
    let (storage, template) = (storage.as_ref().map_err(unmet)?, image.as_ref().map_err(unmet)?);
    let parts = Parts {
        identity: facts.identity,
        mark: &facts.mark,
        size: class.as_ref().map_err(unmet)?,
        template,
        nics: nics.as_ref().map_err(unmet)?,
        bootstrap: bootstrap.as_ref().map_err(unmet)?,
        placement: placement.as_ref().map_err(unmet)?,
        storage,
        disks: disks::layout(vm, &template.devices, storage, creation.direct).map_err(Blocked::Spec)?,
    };
    Ok(compose_clone(vm, &parts))
}

/// The steps from what a VM is to what its spec says; none while an admin has it paused.
fn plan_change(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Arc<Vm>) -> Result<Plan, Blocked> {
    if pause::by_admin(vsphere_vm) {
        return Ok(Plan::Settled);
    }
    let mut steps = change_disks(vm, facts, vsphere_vm)?;
    steps.extend(change_power(vm, facts, vsphere_vm)?);
    steps.extend(facts.promotion.as_ref().and_then(Promotion::remove_note));
    steps.retain(|step| !step.is_done(vsphere_vm));
    let vsphere_vm = Arc::clone(vsphere_vm);
    Ok(if steps.is_empty() { Plan::Settled } else { Plan::Change { vsphere_vm, steps } })
}

/// Disks grow and come in any power state.
fn change_disks(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Result<Vec<Step>, Blocked> {
    let Some(known) = &facts.disks else { return Ok(Vec::new()) };
    let storage = match &known.storage {
        Ok(storage) => storage,
        Err(unmet) if disks::lacks_volumes(vm, vsphere_vm) => return Err(Blocked::Unmet(unmet.clone())),
        Err(_) => &Storage::default(),
    };
    let change = disks::changes(vm, vsphere_vm, &known.devices, storage).map_err(Blocked::Spec)?;
    Ok(change.map(|spec| Step::Reconfigure(Box::new(spec))).into_iter().collect())
}

/// The power state, and with it what can only be changed in another one.
fn change_power(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Result<Vec<Step>, Blocked> {
    use PowerState::{Off, On, Suspended};
    let wanted = wanted_power(vm);
    let turn = || Step::Power(wanted, Mode::into_state(vm, wanted));
    let offline = || resize::offline(vm, vsphere_vm, facts.runtime.size.as_ref());
    Ok(match (vsphere_vm.power_state, wanted) {
        (Some(Off), On) if is_held_back(vm) => offline(),
        (Some(Off), On) => power_on(vm, facts, vsphere_vm)?,
        // A VM that is off can't be suspended: off is as near as it gets.
        (Some(Off), Off | Suspended) => offline(),
        (Some(On), On) => change_running(vm, facts, vsphere_vm),
        (Some(On | Suspended), Off) => [turn()].into_iter().chain(offline()).collect(),
        (Some(Suspended), On) if is_held_back(vm) => Vec::new(),
        (Some(On), Suspended) | (Some(Suspended), On) => vec![turn()],
        // What can't be reached can't be changed either.
        (Some(Suspended), Suspended) | (None, _) => Vec::new(),
    })
}

/// A VM that is off gets its size, its NICs and its bootstrap data, and is powered on.
fn power_on(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Result<Vec<Step>, Blocked> {
    let unmet = |unmet: &Unmet| Blocked::Unmet(unmet.clone());
    if let Some(volumes) = facts.volumes.as_ref().and_then(|volumes| volumes.unmet(vm)) {
        return Err(Blocked::Unmet(volumes));
    }
    let offline = resize::offline(vm, vsphere_vm, facts.runtime.size.as_ref());
    let nic_change = facts.nic_change.as_ref().map_err(unmet)?;
    if let Some(change) = nic_change.as_ref().and_then(NicChange::step) {
        // The bootstrap data depends on the NICs: it is composed once they are there.
        return Ok(offline.into_iter().chain([change]).collect());
    }
    let bootstrap = facts.bootstrap_update.as_ref().map_err(unmet)?;
    let bootstrap = bootstrap.iter().flat_map(Bootstrap::steps);
    let bootstrap = bootstrap.chain(nic_change.iter().map(NicChange::note_step));
    let restart = restart_due(vm, vsphere_vm, facts.now);
    let restarted = restart.map(|at| Step::set_options(vec![step::restart_note(at)]));
    let before = restarted.into_iter().chain(join_module(facts)?);
    let turn = Step::Power(PowerState::On, Mode::into_state(vm, PowerState::On));
    Ok(offline.into_iter().chain(bootstrap).chain(before).chain([turn]).collect())
}

fn change_running(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Vec<Step> {
    let settings = resize::online(vm, vsphere_vm);
    let settings = (settings != ConfigSpec::default()).then(|| Step::Reconfigure(Box::new(settings)));
    // It may have got its group while it ran.
    let joined = join_module(facts).unwrap_or_default();
    joined.into_iter().chain(settings).chain(restart_step(vm, vsphere_vm, facts.now)).collect()
}

/// Whether a check on the object holds power-on back.
fn is_held_back(vm: &VirtualMachine) -> bool {
    !checks(vm, annotation::POWER_ON_CHECK).is_empty()
}

/// The VM becomes a member of its cluster module before it runs.
fn join_module(facts: &Facts) -> Result<Vec<Step>, Blocked> {
    let membership = facts.membership.as_ref().map_err(|unmet| Blocked::Unmet(unmet.clone()))?;
    Ok(membership.to_join.iter().cloned().map(Step::Join).collect())
}
