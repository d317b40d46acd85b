//! What is to be done for a machine, from what is known. No client, no clock.

use std::sync::Arc;

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use uuid::Uuid;
use vsphere::inventory::PowerState;
use vsphere::{ConfigSpec, Devices, Vm};

use crate::pause;
use crate::probe::ProbeResult;
use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::mark::Mark;
use crate::vcenter::{Placement, Problem};
use crate::virtualmachine::bootstrap::Bootstrap;
use crate::virtualmachine::clone::{Identity, Intent, Parts, intent};
use crate::virtualmachine::needs::Needs;
use crate::virtualmachine::nic::change::Rewired;
use crate::virtualmachine::nic::interface::Ask;
use crate::virtualmachine::power;
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::size::resize;
use crate::virtualmachine::step;
use crate::virtualmachine::step::{Mode, Step};
use crate::virtualmachine::storage::claims;
use crate::virtualmachine::storage::claims::Volumes;
use crate::virtualmachine::storage::class::Storage;
use crate::virtualmachine::storage::promotion::Promotion;
use crate::virtualmachine::storage::{disks, promotion};

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Who the machine is.
    pub identity: Identity,
    /// Whose it is.
    pub mark: Mark,
    /// What vCenter has of it.
    pub found: Found,
    /// What the readiness probe says; `None` without a probe.
    pub probe: Option<ProbeResult>,
    /// Name of the host it runs on.
    pub host: Option<String>,
    /// Its persistent volumes, where it has or had some.
    pub volumes: Option<Volumes>,
    /// The zone it lies in.
    pub zone: Option<String>,
    /// The cluster module that the machine is still to become a member of, before it runs.
    pub module: Need<Option<String>>,
    /// Its disks, where the spec says something about them.
    pub hardware: Option<Hardware>,
    /// The size that the class of an existing machine stands for, where it is known.
    pub size: Option<Size>,
    /// Where the machine should lie, where that is known.
    pub place: Option<Placement>,
    /// What becomes of its linked disks, where somebody asks for something.
    pub promotion: Option<Promotion>,
    /// The cards that a machine that is off gets before it runs, where its spec names others.
    pub rewired: Need<Option<Rewired>>,
    /// What has to be asked of the network provider for a machine that is there.
    pub asks: Vec<Ask>,
    /// What a machine that is off is told anew before it runs.
    pub retold: Need<Option<Bootstrap>>,
    /// The clock.
    pub now: jiff::Timestamp,
}

impl Facts {
    /// What vCenter has of the machine, and nothing else.
    pub fn new(identity: Identity, mark: Mark, found: Found, now: jiff::Timestamp) -> Self {
        Self {
            identity,
            mark,
            found,
            probe: None,
            host: None,
            volumes: None,
            zone: None,
            module: Ok(None),
            hardware: None,
            size: None,
            place: None,
            promotion: None,
            rewired: Ok(None),
            asks: Vec::new(),
            retold: Ok(None),
            now,
        }
    }

    /// What the guest of a new machine is told is not held any longer, only that it is known.
    pub fn forget_bootstrap(&mut self) {
        if let Found::Nothing(nothing) = &mut self.found
            && let Ok(bootstrap) = &mut nothing.needs.bootstrap
        {
            *bootstrap = Bootstrap::default();
        }
    }
}

/// What is known of the disks of a machine that is there.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Its devices.
    pub devices: Arc<Devices>,
    /// What further disks of it lie on.
    pub storage: Need<Storage>,
}

/// What vCenter has of a machine.
#[derive(Clone, Debug)]
pub enum Found {
    /// Nobody can tell now.
    Unknown(Problem),
    /// Nothing, and there never was anything: it can be made, with these.
    Nothing(Box<Nothing>),
    /// Nobody knows where to look: the place is unmet.
    Nowhere(Unmet),
    /// The machine.
    Ours(Arc<Vm>),
    /// The machine, outside our folders.
    Moved(Arc<Vm>),
    /// It was there once and is gone; since when and by whose doing, where vCenter tells.
    Lost(Option<String>),
    /// Somebody else's machine has its name or UUID.
    Anothers(Claim),
}

/// What a machine that is not there is made of.
#[derive(Clone, Debug)]
pub struct Nothing {
    /// What has to be there first.
    pub needs: Needs,
    /// What has to be asked of the network provider.
    pub asks: Vec<Ask>,
    /// Whether disks are copied where nobody asks for links.
    pub direct: bool,
}

/// Somebody else's machine that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it has of ours, such as `BIOS UUID 4237…`.
    pub what: String,
    /// Which machine it is, and whose.
    pub holder: String,
}

/// What is to be done in vCenter.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Make the machine.
    Make {
        /// By this one call, which powers it on where nothing else has to be done before.
        clone: Box<Intent>,
        /// What the clone can't do by itself.
        then: Vec<Step>,
    },
    /// Change the machine that is there.
    Change {
        /// The machine.
        machine: Arc<Vm>,
        /// In this order.
        steps: Vec<Step>,
    },
    /// Nothing.
    Settled,
}

/// Why nothing can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// The spec can't be carried out; the user must change it.
    #[error("{0}")]
    Spec(String),
    /// Something is missing.
    #[error("{}", .0.message)]
    Unmet(Unmet),
    /// vCenter can't be used now.
    #[error("{0}")]
    Provider(Problem),
    /// Somebody else's machine is in the way.
    #[error("{} belongs to the machine {}. Give this VirtualMachine another, or remove that machine", .0.what, .0.holder)]
    Claimed(Claim),
    /// The machine is gone, and is never made again in silence.
    #[error(
        "{GONE}{}, not by this object. Delete this VirtualMachine; its owner makes another",
        .0.as_ref().map_or_else(String::new, |how| format!(" ({how})"))
    )]
    Lost(Option<String>),
    /// Somebody holds it back; the user must act.
    #[error("{0}")]
    Held(String),
    /// The machine is outside our folders.
    #[error("The machine {0} was moved out of its folder in vCenter. Move it back")]
    Moved(String),
}

/// How the message of a lost machine begins.
const GONE: &str = "The machine was destroyed or removed in vCenter";

impl Blocked {
    /// Since when and by whose doing a machine is lost, out of the message of [`Blocked::Lost`].
    pub fn how_lost(message: &str) -> Option<String> {
        let (how, _) = message.strip_prefix(GONE)?.strip_prefix(" (")?.split_once("), not by this object")?;
        Some(how.to_owned())
    }
}

/// The UUIDs of the spec; `Ok(None)` where they are still to be drawn.
pub fn identity(vm: &VirtualMachine) -> Result<Option<Identity>, Blocked> {
    let parsed = |field: &str, text: &Option<String>| match text.as_deref().filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => Uuid::parse_str(text).map(Some).map_err(|_| {
            Blocked::Spec(format!("spec.{field} {text:?} is not a UUID. Correct it, or leave it out"))
        }),
    };
    let bios = parsed("biosUUID", &vm.spec.bios_uuid)?;
    let instance = parsed("instanceUUID", &vm.spec.instance_uuid)?;
    Ok(bios.zip(instance).map(|(bios, instance)| Identity { bios, instance }))
}

/// The UUIDs to write into the spec: what is there stays, what is missing is like the other, or `drawn`.
pub fn completed(vm: &VirtualMachine, drawn: Uuid) -> Result<Identity, Blocked> {
    let mut filled = vm.clone();
    let given =
        [&vm.spec.bios_uuid, &vm.spec.instance_uuid].into_iter().flatten().find(|text| !text.is_empty());
    let text = given.cloned().unwrap_or_else(|| drawn.to_string());
    for uuid in [&mut filled.spec.bios_uuid, &mut filled.spec.instance_uuid] {
        if uuid.as_deref().is_none_or(str::is_empty) {
            *uuid = Some(text.clone());
        }
    }
    let spec = || Blocked::Spec("spec.biosUUID and spec.instanceUUID are missing".to_owned());
    identity(&filled)?.ok_or_else(spec)
}

/// Whether the machine existed once: then it is never made again.
pub fn existed(vm: &VirtualMachine) -> bool {
    vm.annotations().contains_key(annotation::FIRST_BOOT_DONE)
        || vm.status.as_ref().is_some_and(|status| status.unique_id.is_some())
}

/// What of an object decides what is done to its machine: the version of its spec, its deletion, and that its machine
/// existed.
pub fn decides(vm: &VirtualMachine) -> (Option<i64>, bool, bool) {
    (vm.metadata.generation, vm.metadata.deletion_timestamp.is_some(), existed(vm))
}

/// What is to be done for `vm`.
pub fn plan(vm: &VirtualMachine, facts: &Facts) -> Result<Plan, Blocked> {
    match &facts.found {
        Found::Unknown(problem) => Err(Blocked::Provider(problem.clone())),
        Found::Nowhere(unmet) => Err(Blocked::Unmet(unmet.clone())),
        Found::Anothers(claim) => Err(Blocked::Claimed(claim.clone())),
        Found::Lost(how) => Err(Blocked::Lost(how.clone())),
        Found::Moved(machine) => Err(Blocked::Moved(machine.moref.id().to_owned())),
        Found::Ours(machine) => changed(vm, facts, machine),
        Found::Nothing(nothing) => made(vm, facts, nothing),
    }
}

/// Makes the machine. Where something has to be done before it may run, the clone stays off.
fn made(vm: &VirtualMachine, facts: &Facts, nothing: &Nothing) -> Result<Plan, Blocked> {
    let mut clone = made_of(vm, facts, nothing)?;
    let least = vm.spec.min_hardware_version.and_then(|version| u32::try_from(version).ok());
    let mut then: Vec<_> = least.map(Step::Upgrade).into_iter().chain(before_power_on(facts)?).collect();
    if clone.spec.power_on && (held_back(vm) || claims::has_claims(vm)) {
        clone.spec.power_on = false;
    } else if clone.spec.power_on && !then.is_empty() {
        clone.spec.power_on = false;
        then.push(Step::Power(PowerState::On, Mode::Hard));
    }
    if let Some(config) = &mut clone.spec.config {
        // A restart that was asked for before there was anything to restart is no more to be done.
        let asked = vm.spec.next_restart_time.as_deref().and_then(|time| time.parse().ok());
        config.extra_config.extend(asked.filter(|asked| *asked <= facts.now).map(step::restarted));
    }
    Ok(Plan::Make { clone: Box::new(clone), then })
}

/// The steps from what the machine is to what its spec says.
fn changed(vm: &VirtualMachine, facts: &Facts, machine: &Arc<Vm>) -> Result<Plan, Blocked> {
    if pause::by_admin(machine) {
        return Ok(Plan::Settled);
    }
    let mut steps = disks(vm, facts, machine)?;
    steps.extend(towards(vm, facts, machine)?);
    steps.extend(promotion::noted(facts.promotion.as_ref()));
    steps.retain(|step| !step.is_so(machine));
    let machine = Arc::clone(machine);
    Ok(if steps.is_empty() { Plan::Settled } else { Plan::Change { machine, steps } })
}

/// Disks that the spec asks for and the machine lacks.
fn disks(vm: &VirtualMachine, facts: &Facts, machine: &Vm) -> Result<Vec<Step>, Blocked> {
    let Some(hardware) = &facts.hardware else { return Ok(Vec::new()) };
    let storage = match &hardware.storage {
        Ok(storage) => storage,
        Err(unmet) if disks::lacks_volumes(vm, machine) => return Err(Blocked::Unmet(unmet.clone())),
        Err(_) => &Storage::default(),
    };
    let change = disks::changes(vm, machine, &hardware.devices, storage).map_err(Blocked::Spec)?;
    Ok(change.map(|spec| Step::Reconfigure(Box::new(spec))).into_iter().collect())
}

/// What is done only to a machine that is off comes before its power-on, or after its end.
fn towards(vm: &VirtualMachine, facts: &Facts, machine: &Vm) -> Result<Vec<Step>, Blocked> {
    use PowerState::{Off, On, Suspended};
    let wanted = power::wanted(vm);
    let turned = || Step::Power(wanted, Mode::into_state(vm, wanted));
    let offline = || resize::offline(vm, machine, facts.size.as_ref());
    Ok(match (machine.power_state, wanted) {
        (Some(Off), On) if held_back(vm) => offline(),
        (Some(Off), On) => {
            if let Some(unmet) = facts.volumes.as_ref().and_then(|volumes| volumes.unmet(vm)) {
                return Err(Blocked::Unmet(unmet));
            }
            let rewired = facts.rewired.as_ref().map_err(|unmet| Blocked::Unmet(unmet.clone()))?;
            if let Some(change) = rewired.as_ref().and_then(Rewired::change) {
                // What its guest is told of the cards is known once they are there.
                return Ok(offline().into_iter().chain([change]).collect());
            }
            let retold = facts.retold.as_ref().map_err(|unmet| Blocked::Unmet(unmet.clone()))?;
            let retold = retold.iter().flat_map(Bootstrap::steps);
            let fresh = power::restart_due(vm, machine, facts.now).map(|at| noted(vec![step::restarted(at)]));
            let before = fresh.into_iter().chain(before_power_on(facts)?);
            let told = retold.chain(rewired.iter().map(Rewired::done));
            offline().into_iter().chain(told).chain(before).chain([turned()]).collect()
        }
        // A machine that is off can't be suspended: off is as near as it gets.
        (Some(Off), Off | Suspended) => offline(),
        (Some(On), On) => running(vm, facts, machine),
        (Some(On | Suspended), Off) => [turned()].into_iter().chain(offline()).collect(),
        (Some(Suspended), On) if held_back(vm) => Vec::new(),
        (Some(On), Suspended) | (Some(Suspended), On) => vec![turned()],
        // A machine that can't be reached can't be told anything either.
        (Some(Suspended), Suspended) | (None, _) => Vec::new(),
    })
}

/// What can be done to a machine that runs and shall run.
fn running(vm: &VirtualMachine, facts: &Facts, machine: &Vm) -> Vec<Step> {
    let settings = resize::online(vm, machine);
    let settings = (settings != ConfigSpec::default()).then(|| Step::Reconfigure(Box::new(settings)));
    // It may have got its group while it ran.
    let joined = before_power_on(facts).unwrap_or_default();
    joined.into_iter().chain(settings).chain(power::restart(vm, machine, facts.now)).collect()
}

fn noted(extra_config: Vec<(String, String)>) -> Step {
    Step::Reconfigure(Box::new(ConfigSpec { extra_config: extra_config.into(), ..ConfigSpec::default() }))
}

/// Whether a check holds the machine's power-on back.
fn held_back(vm: &VirtualMachine) -> bool {
    !power::checks(vm, annotation::POWER_ON_CHECK).is_empty()
}

/// What has to be done to a machine that is off before it may run.
fn before_power_on(facts: &Facts) -> Result<Vec<Step>, Blocked> {
    let module = facts.module.as_ref().map_err(|unmet| Blocked::Unmet(unmet.clone()))?;
    Ok(module.iter().cloned().map(Step::Join).collect())
}

fn made_of(vm: &VirtualMachine, facts: &Facts, nothing: &Nothing) -> Result<Intent, Blocked> {
    // No `..`: a need that nobody sync_requests at must not compile.
    let Needs { class, image, storage, network, bootstrap, place } = &nothing.needs;
    if let Some(unmet) = nothing.needs.first_unmet() {
        return Err(Blocked::Unmet(unmet.clone()));
    }
    let unmet = |unmet: &Unmet| Blocked::Unmet(unmet.clone());
    let (storage, template) = (storage.as_ref().map_err(unmet)?, image.as_ref().map_err(unmet)?);
    let parts = Parts {
        identity: facts.identity,
        mark: &facts.mark,
        size: class.as_ref().map_err(unmet)?,
        template,
        cards: network.as_ref().map_err(unmet)?,
        bootstrap: bootstrap.as_ref().map_err(unmet)?,
        place: place.as_ref().map_err(unmet)?,
        storage,
        disks: disks::layout(vm, &template.devices, storage, nothing.direct).map_err(Blocked::Spec)?,
    };
    Ok(intent(vm, &parts))
}
