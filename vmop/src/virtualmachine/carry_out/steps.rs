//! The steps of a plan, taken one after another.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use jiff::Timestamp;
use vsphere::inventory::{Inventory, Presence};
use vsphere::{ConfigSpec, CustomizationSpec, MoRef, Vm};

use super::guest::ask_guest;
use super::power::{finish_task, set_power};
use crate::vcenter::VCenter;
use crate::virtualmachine::context::Context;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::power::operation::{PowerOperation, power_operation};
use crate::virtualmachine::step::{Mode, Step, restart_note};

/// How long a reconcile waits for the inventory to show what a step has come to.
const SHOWN: Duration = Duration::from_secs(2);

/// The fault of a VM whose guest is to be customized already.
const PENDING: &str = "CustomizationPending";

/// Takes the steps; the VM as it is then, for all that the inventory shows.
///
/// Where the guest has to do one, it is asked, and the steps after it are for the reconcile that finds it done.
pub async fn take_all(
    mut machine: Arc<Vm>,
    steps: &[Step],
    vm: &VirtualMachine,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    for step in steps {
        // The inventory goes on while a step is carried out.
        if let Presence::Present(now) = vcenter.inventory.vm(&machine.moref) {
            machine = now;
        }
        if step.is_done(&machine) {
            continue;
        }
        if let Step::Power(state, mode) = step {
            match power_operation(vm, &machine, *state, *mode, Timestamp::now()) {
                PowerOperation::Hard => {}
                PowerOperation::ToolsNotRunning => return Ok(machine),
                PowerOperation::Guest(until) => {
                    ask_guest(vm, &machine, *state, until, vcenter, ctx).await?;
                    return Ok(wait_until(machine, vcenter, |machine| step.is_done(machine)).await);
                }
            }
        }
        take_step(&machine.moref, step, vcenter).await?;
        machine = match step {
            Step::Customize(_) | Step::Join(_) => machine,
            step => wait_until(machine, vcenter, |machine| step.is_done(machine)).await,
        };
    }
    Ok(machine)
}

/// Takes one step.
pub async fn take_step(machine: &MoRef, step: &Step, vcenter: &VCenter) -> Result<(), Error> {
    tracing::info!(%machine, step = step.word(), "changing the VM");
    match step {
        Step::Reconfigure(spec) => {
            finish_task(vcenter.client.reconfigure_vm(machine, (**spec).clone()).await, vcenter).await
        }
        Step::Upgrade(version) => {
            finish_task(vcenter.client.upgrade_hardware(machine, *version).await, vcenter).await
        }
        Step::Customize(spec) => customize(machine, spec, vcenter).await,
        Step::Join(module) => Ok(vcenter.memberships.join(&vcenter.client, module, machine).await?),
        Step::Power(state, _) => set_power(machine, *state, vcenter).await,
        Step::Restart(mode, at) => {
            // Noted after the deed: a crash between the two restarts a booting guest once more, but loses no restart.
            match mode {
                Mode::Hard => finish_task(vcenter.client.reset(machine).await, vcenter).await?,
                Mode::Soft | Mode::TrySoft => vcenter.client.reboot_guest(machine).await?,
            }
            let note = ConfigSpec { extra_config: vec![restart_note(*at)].into(), ..ConfigSpec::default() };
            finish_task(vcenter.client.reconfigure_vm(machine, note).await, vcenter).await
        }
    }
}

/// Has the guest customized at its next start, in place of a customization that waited for that.
///
/// vCenter takes no second customization before the first was carried out or removed. One that can't be removed does not
/// hold the VM back: it is the guest's then.
async fn customize(machine: &MoRef, spec: &CustomizationSpec, vcenter: &VCenter) -> Result<(), Error> {
    match finish_task(vcenter.client.customize_vm(machine, spec.clone()).await, vcenter).await {
        Err(error) if is_pending(&error) => {}
        other => return other,
    }
    tracing::info!(%machine, "removing the customization that waits for the guest's start");
    let none = ConfigSpec { pending_customization: Some(String::new()), ..ConfigSpec::default() };
    let again = match finish_task(vcenter.client.reconfigure_vm(machine, none).await, vcenter).await {
        Ok(()) => finish_task(vcenter.client.customize_vm(machine, spec.clone()).await, vcenter).await,
        Err(Error::Vcenter(error)) if !error.retryable() => {
            tracing::warn!(%machine, %error, "the customization that waits can't be removed, and stays");
            return Ok(());
        }
        failed => failed,
    };
    match again {
        Err(error) if is_pending(&error) => {
            tracing::warn!(%machine, "a customization waits for the guest's start still, and stays");
            Ok(())
        }
        other => other,
    }
}

/// Whether vCenter refuses because the machine's guest is to be customized already.
fn is_pending(error: &Error) -> bool {
    matches!(error, Error::Vcenter(error) if error.fault().is_some_and(|fault| fault.type_name == PENDING))
}

/// The VM as it is once the inventory shows it so, or after a while as it was.
pub async fn wait_until(vsphere_vm: Arc<Vm>, vcenter: &VCenter, so: impl Fn(&Vm) -> bool) -> Arc<Vm> {
    let shown = |inventory: &Inventory| inventory.vm(&vsphere_vm.moref).present().filter(|now| so(now));
    vcenter.inventory.wait_until(SHOWN, shown).await.unwrap_or_else(|| Arc::clone(&vsphere_vm))
}
