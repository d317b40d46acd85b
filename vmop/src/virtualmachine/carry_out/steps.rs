//! The steps of a plan, carried out one after another.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use jiff::Timestamp;
use vsphere::inventory::{PowerState, Presence};
use vsphere::{ConfigSpec, CustomizationSpec, Kind, MoRef, Vm};

use crate::vcenter::VCenter;
use crate::virtualmachine::carry_out::guest;
use crate::virtualmachine::power;
use crate::virtualmachine::power::Way;
use crate::virtualmachine::step::{Mode, Step, restarted};
use crate::virtualmachine::{Context, Error};

/// How long a pass waits for the stream to tell what a step has come to.
const SEEN: Duration = Duration::from_secs(2);

/// The fault of a machine whose guest is to be customised already.
const PENDING: &str = "CustomizationPending";

/// The steps are carried out; the machine as it is then, for all that the stream has told.
///
/// Where the guest has to do one, it is asked, and the steps after it are for the pass that finds it done.
pub async fn taken(
    mut machine: Arc<Vm>,
    steps: &[Step],
    vm: &VirtualMachine,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    for step in steps {
        // The stream goes on while a step is carried out.
        if let Presence::Present(now) = vcenter.inventory.vm(&machine.moref) {
            machine = now;
        }
        if step.is_so(&machine) {
            continue;
        }
        if let Step::Power(state, mode) = step {
            match power::way(vm, &machine, *state, *mode, Timestamp::now()) {
                Way::Hard => {}
                Way::Deaf => return Ok(machine),
                Way::Ask(until) => {
                    guest::asked(vm, &machine, *state, until, vcenter, ctx).await?;
                    return Ok(seen(machine, vcenter, |machine| step.is_so(machine)).await);
                }
            }
        }
        carried_out(&machine.moref, step, vcenter).await?;
        machine = match step {
            Step::Customize(_) | Step::Join(_) => machine,
            step => seen(machine, vcenter, |machine| step.is_so(machine)).await,
        };
    }
    Ok(machine)
}

/// The step is done, or vCenter says why not.
pub async fn carried_out(machine: &MoRef, step: &Step, vcenter: &VCenter) -> Result<(), Error> {
    tracing::info!(%machine, step = step.word(), "changing the machine");
    match step {
        Step::Reconfigure(spec) => {
            ended(vcenter.client.reconfigure_vm(machine, (**spec).clone()).await, vcenter).await
        }
        Step::Upgrade(version) => {
            ended(vcenter.client.upgrade_hardware(machine, *version).await, vcenter).await
        }
        Step::Customize(spec) => customised(machine, spec, vcenter).await,
        Step::Join(module) => Ok(vcenter.memberships.join(&vcenter.client, module, machine).await?),
        Step::Power(state, _) => powered(machine, *state, vcenter).await,
        Step::Restart(mode, at) => {
            // Noted after the deed: a crash between the two restarts a booting guest once more, but loses no restart.
            match mode {
                Mode::Hard => ended(vcenter.client.reset(machine).await, vcenter).await?,
                Mode::Soft | Mode::TrySoft => vcenter.client.reboot_guest(machine).await?,
            }
            let note = ConfigSpec { extra_config: vec![restarted(*at)].into(), ..ConfigSpec::default() };
            ended(vcenter.client.reconfigure_vm(machine, note).await, vcenter).await
        }
    }
}

/// The guest is set up at its next start, in place of what waited for that.
///
/// vCenter takes no second customisation before the first was carried out or taken off. One that can't be taken off does
/// not hold the machine back: it is the guest's then.
async fn customised(machine: &MoRef, spec: &CustomizationSpec, vcenter: &VCenter) -> Result<(), Error> {
    match ended(vcenter.client.customize_vm(machine, spec.clone()).await, vcenter).await {
        Err(error) if is_pending(&error) => {}
        other => return other,
    }
    tracing::info!(%machine, "taking off the customisation that waits for the guest's start");
    let none = ConfigSpec { pending_customization: Some(String::new()), ..ConfigSpec::default() };
    let again = match ended(vcenter.client.reconfigure_vm(machine, none).await, vcenter).await {
        Ok(()) => ended(vcenter.client.customize_vm(machine, spec.clone()).await, vcenter).await,
        Err(Error::Vcenter(error)) if !error.retryable() => {
            tracing::warn!(%machine, %error, "the customisation that waits can't be taken off, and stays");
            return Ok(());
        }
        failed => failed,
    };
    match again {
        Err(error) if is_pending(&error) => {
            tracing::warn!(%machine, "a customisation waits for the guest's start still, and stays");
            Ok(())
        }
        other => other,
    }
}

/// Whether vCenter refuses because the machine's guest is to be customised already.
fn is_pending(error: &Error) -> bool {
    matches!(error, Error::Vcenter(error) if error.fault().is_some_and(|fault| fault.type_name == PENDING))
}

/// The machine is in that power state, or vCenter says why not.
pub async fn powered(machine: &MoRef, state: PowerState, vcenter: &VCenter) -> Result<(), Error> {
    let started = match state {
        PowerState::On => vcenter.client.power_on(machine).await,
        PowerState::Off => vcenter.client.power_off(machine).await,
        PowerState::Suspended => vcenter.client.suspend(machine).await,
    };
    match ended(started, vcenter).await {
        // Somebody else was faster, or the stream lags.
        Err(Error::Vcenter(error)) if is_in(&error, state) => Ok(()),
        other => other,
    }
}

/// Whether vCenter refuses because the machine is in that power state already.
fn is_in(error: &vsphere::Error, state: PowerState) -> bool {
    let existing = error.fault().map(|fault| fault.detail.get("existingState").as_str().unwrap_or_default());
    matches!(error.kind(), Kind::InvalidState) && existing == Some(power::word(state))
}

/// The task has come through.
async fn ended(started: vsphere::Result<MoRef>, vcenter: &VCenter) -> Result<(), Error> {
    let ended = match started {
        Ok(task) => vcenter.inventory.wait_for_task(&task).await.map(drop),
        Err(error) => Err(error),
    };
    match ended {
        // The task is forgotten, so it is over.
        Err(error) if error.is_not_found() && error.method() == "Task" => Ok(()),
        other => Ok(other?),
    }
}

/// The machine as it is once the stream has told that it is so, or after a while as it was.
pub async fn seen(machine: Arc<Vm>, vcenter: &VCenter, so: impl Fn(&Vm) -> bool) -> Arc<Vm> {
    let mut changes = vcenter.inventory.subscribe();
    let told = async {
        loop {
            match vcenter.inventory.vm(&machine.moref) {
                Presence::Present(machine) if so(&machine) => return machine,
                _ if changes.next().await.is_none() => return std::future::pending().await,
                _ => {}
            }
        }
    };
    tokio::time::timeout(SEEN, told).await.unwrap_or_else(|_elapsed| Arc::clone(&machine))
}
