//! Plans the changes to a VM from its facts. The functions use neither a client nor a clock.

use std::sync::Arc;

use api::names::annotation;
use api::vmop::VirtualMachine;
use vsphere::inventory::PowerState;
use vsphere::{ConfigSpec, Vm};

use super::bootstrap::data::Bootstrap;
use super::clone::{CloneParts, ClonePlan, compose_clone};
use super::error::Blocked;
use super::facts::Facts;
use super::identity::find::Found;
use super::needs::{Creation, Needs};
use super::nic::change::NicChange;
use super::power::operation::{restart_due, restart_step};
use super::power::state::{checks, wanted_power};
use super::size::resize;
use super::step::{self, PowerMode, Step};
use super::storage::class::Storage;
use super::storage::promotion::Promotion;
use super::storage::{claims, disks};
use crate::device_check::hold_for_check;
use crate::pause;
use crate::unmet::Unmet;

/// The planned changes in vCenter.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Create the VM.
    Create {
        /// The clone call. It also powers on the VM, unless other work must be done before power-on.
        clone: Box<ClonePlan>,
        /// Steps that the clone call can't do.
        then: Vec<Step>,
    },
    /// Change the VM that exists.
    Change {
        vsphere_vm: Arc<Vm>,
        /// The steps in order.
        steps: Vec<Step>,
    },
    /// The VM doesn't need changes.
    Settled,
}

/// Plans the changes for `vm`.
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

/// Plans the clone and the steps that follow it.
fn plan_creation(vm: &VirtualMachine, facts: &Facts, creation: &Creation) -> Result<Plan, Blocked> {
    let mut clone = plan_clone(vm, facts, creation)?;
    let least = vm.spec.min_hardware_version.and_then(|version| u32::try_from(version).ok());
    let mut then: Vec<_> = least.map(Step::Upgrade).into_iter().chain(join_module(facts)?).collect();
    if hold_for_check(&mut clone.spec, creation.proven_devices) {
        // The next reconcile finds the VM off, and checks its devices first.
    } else if clone.spec.power_on && (is_held_back(vm) || claims::has_claims(vm)) {
        clone.spec.power_on = false;
    } else if clone.spec.power_on && !then.is_empty() {
        clone.spec.power_on = false;
        then.push(Step::Power(PowerState::On, PowerMode::Hard));
    }
    if let Some(config) = &mut clone.spec.config {
        // A restart requested for a time before the creation counts as done.
        let asked = vm.spec.next_restart_time.as_deref().and_then(|time| time.parse().ok());
        config.extra_config.extend(asked.filter(|asked| *asked <= facts.now).map(step::restart_note));
    }
    Ok(Plan::Create { clone: Box::new(clone), then })
}

fn plan_clone(vm: &VirtualMachine, facts: &Facts, creation: &Creation) -> Result<ClonePlan, Blocked> {
    // Without `..`, a new need that isn't handled is a compile error.
    let Needs { class, image, storage, nics, bootstrap, placement } = &creation.needs;
    if let Some(unmet) = creation.needs.first_unmet() {
        return Err(Blocked::Unmet(unmet.clone()));
    }
    let unmet = |unmet: &Unmet| Blocked::Unmet(unmet.clone());
    let (storage, template) = (storage.as_ref().map_err(unmet)?, image.as_ref().map_err(unmet)?);
    let parts = CloneParts {
        identity: facts.identity,
        mark: &facts.mark,
        size: class.as_ref().map_err(unmet)?,
        template,
        nics: nics.as_ref().map_err(unmet)?,
        bootstrap: bootstrap.as_ref().map_err(unmet)?,
        placement: placement.as_ref().map_err(unmet)?,
        storage,
        disks: disks::plan_disks(vm, &template.devices, storage, creation.direct).map_err(Blocked::Spec)?,
    };
    Ok(compose_clone(vm, &parts))
}

/// Plans the steps that make a VM match its spec. Returns [`Plan::Settled`] while an admin has paused the VM.
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

/// Plans disk changes. Disks can be added and grown in any power state.
fn change_disks(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Result<Vec<Step>, Blocked> {
    let Some(known) = &facts.disks else { return Ok(Vec::new()) };
    let storage = match &known.storage {
        Ok(storage) => storage,
        Err(unmet) if disks::lacks_volumes(vm, vsphere_vm) => return Err(Blocked::Unmet(unmet.clone())),
        Err(_) => &Storage::default(),
    };
    let change = disks::plan_disk_changes(vm, vsphere_vm, &known.devices, storage).map_err(Blocked::Spec)?;
    Ok(change.map(|spec| Step::Reconfigure(Box::new(spec))).into_iter().collect())
}

/// Plans the power state change, and the changes that depend on the power state.
fn change_power(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Result<Vec<Step>, Blocked> {
    use PowerState::{Off, On, Suspended};
    let wanted = wanted_power(vm);
    let turn = || Step::Power(wanted, PowerMode::into_state(vm, wanted));
    let offline = || resize::plan_offline_steps(vm, vsphere_vm, facts.runtime.size.as_ref());
    Ok(match (vsphere_vm.power_state, wanted) {
        (Some(Off), On) if is_held_back(vm) => offline(),
        (Some(Off), On) => power_on(vm, facts, vsphere_vm)?,
        // vCenter can't suspend a VM that is off. Off is the closest state.
        (Some(Off), Off | Suspended) => offline(),
        (Some(On), On) => change_running(vm, facts, vsphere_vm),
        (Some(On | Suspended), Off) => [turn()].into_iter().chain(offline()).collect(),
        (Some(Suspended), On) if is_held_back(vm) => Vec::new(),
        (Some(On), Suspended) | (Some(Suspended), On) => vec![turn()],
        // The VM already has the wanted state, or vCenter can't reach it.
        (Some(Suspended), Suspended) | (None, _) => Vec::new(),
    })
}

/// Plans the power-on for a VM that is off. Its size, NICs and bootstrap data are changed first.
fn power_on(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Result<Vec<Step>, Blocked> {
    let unmet = |unmet: &Unmet| Blocked::Unmet(unmet.clone());
    if let Some(volumes) = facts.volumes.as_ref().and_then(|volumes| volumes.unmet(vm)) {
        return Err(Blocked::Unmet(volumes));
    }
    let offline = resize::plan_offline_steps(vm, vsphere_vm, facts.runtime.size.as_ref());
    let nic_change = facts.nic_change.as_ref().map_err(unmet)?;
    if let Some(change) = nic_change.as_ref().and_then(NicChange::step) {
        // The bootstrap data depends on the NICs, so it is composed after they are changed.
        return Ok(offline.into_iter().chain([change]).collect());
    }
    let bootstrap = facts.bootstrap_update.as_ref().map_err(unmet)?;
    let bootstrap = bootstrap.iter().flat_map(Bootstrap::steps);
    let bootstrap = bootstrap.chain(nic_change.iter().map(NicChange::note_step));
    let restart = restart_due(vm, vsphere_vm, facts.now);
    let restarted = restart.map(|at| Step::set_options(vec![step::restart_note(at)]));
    let before = restarted.into_iter().chain(join_module(facts)?);
    let turn = Step::Power(PowerState::On, PowerMode::into_state(vm, PowerState::On));
    Ok(offline.into_iter().chain(bootstrap).chain(before).chain([turn]).collect())
}

fn change_running(vm: &VirtualMachine, facts: &Facts, vsphere_vm: &Vm) -> Vec<Step> {
    let settings = resize::plan_online_changes(vm, vsphere_vm);
    let settings = (settings != ConfigSpec::default()).then(|| Step::Reconfigure(Box::new(settings)));
    // The VM may have been assigned to a group while it ran.
    let joined = join_module(facts).unwrap_or_default();
    joined.into_iter().chain(settings).chain(restart_step(vm, vsphere_vm, facts.now)).collect()
}

/// Returns true if a check annotation on the VirtualMachine blocks power-on.
fn is_held_back(vm: &VirtualMachine) -> bool {
    !checks(vm, annotation::POWER_ON_CHECK).is_empty()
}

/// Returns the step that adds the VM to its cluster module, if it isn't a member.
fn join_module(facts: &Facts) -> Result<Vec<Step>, Blocked> {
    let membership = facts.membership.as_ref().map_err(|unmet| Blocked::Unmet(unmet.clone()))?;
    Ok(membership.to_join.iter().cloned().map(Step::Join).collect())
}
