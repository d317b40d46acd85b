//! Carries out a plan's steps in order.

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
use crate::virtualmachine::error::{Blocked, Error};
use crate::virtualmachine::power::operation::{PowerOperation, power_operation};
use crate::virtualmachine::step::{PowerMode, Step, restart_note};

/// The maximum time that a reconcile waits until the inventory shows the result of a step.
const SHOWN: Duration = Duration::from_secs(2);

/// The fault for a VM whose guest already has a pending customization.
const PENDING: &str = "CustomizationPending";

/// Carries out the steps, and returns the VM in its last state in the inventory.
///
/// If the guest must carry out a power step, the step is only requested. A later reconcile, which finds the power step done,
/// carries out the remaining steps.
pub async fn take_all(
    mut vsphere_vm: Arc<Vm>,
    steps: &[Step],
    vm: &VirtualMachine,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    for step in steps {
        // The inventory changes while a step is carried out.
        match vcenter.inventory.vm(&vsphere_vm.moref) {
            Presence::Present(now) => vsphere_vm = now,
            Presence::Unavailable(now) => return Err(Blocked::Unavailable(now).into()),
            Presence::Absent | Presence::Unknown => {}
        }
        if step.is_done(&vsphere_vm) {
            continue;
        }
        if let Step::Power(state, mode) = step {
            match power_operation(vm, &vsphere_vm, *state, *mode, Timestamp::now()) {
                PowerOperation::Hard => {}
                PowerOperation::ToolsNotRunning => return Ok(vsphere_vm),
                PowerOperation::Guest(until) => {
                    ask_guest(vm, &vsphere_vm, *state, until, vcenter, ctx).await?;
                    return Ok(wait_until(vsphere_vm, vcenter, |vsphere_vm| step.is_done(vsphere_vm)).await);
                }
            }
        }
        take_step(&vsphere_vm.moref, step, vcenter).await?;
        vsphere_vm = match step {
            Step::Customize(_) | Step::Join(_) => vsphere_vm,
            step => wait_until(vsphere_vm, vcenter, |vsphere_vm| step.is_done(vsphere_vm)).await,
        };
    }
    Ok(vsphere_vm)
}

/// Carries out one step, and waits until its vCenter task has ended.
pub async fn take_step(vsphere_vm: &MoRef, step: &Step, vcenter: &VCenter) -> Result<(), Error> {
    tracing::info!(%vsphere_vm, step = step.word(), "changing the VM");
    match step {
        Step::Reconfigure(spec) => {
            finish_task(vcenter.client.reconfigure_vm(vsphere_vm, (**spec).clone()).await, vcenter).await
        }
        Step::Upgrade(version) => {
            let upgraded =
                finish_task(vcenter.client.upgrade_hardware(vsphere_vm, *version).await, vcenter).await;
            upgraded.map_err(|error| unsupported_version(error, *version))
        }
        Step::Customize(spec) => customize(vsphere_vm, spec, vcenter).await,
        Step::Join(module) => Ok(vcenter.memberships.join(&vcenter.client, module, vsphere_vm).await?),
        Step::Power(state, _) => set_power(vsphere_vm, *state, vcenter).await,
        Step::Restart(mode, at) => {
            // Recorded after the restart: a crash in between repeats a restart, but doesn't lose one.
            match mode {
                PowerMode::Hard => finish_task(vcenter.client.reset(vsphere_vm).await, vcenter).await?,
                PowerMode::Soft | PowerMode::TrySoft => vcenter.client.reboot_guest(vsphere_vm).await?,
            }
            let note = ConfigSpec { extra_config: vec![restart_note(*at)].into(), ..ConfigSpec::default() };
            finish_task(vcenter.client.reconfigure_vm(vsphere_vm, note).await, vcenter).await
        }
    }
}

/// Converts the error for a hardware version that the VM's host doesn't support. The new error isn't retried, because the cause
/// lasts until the spec or the host changes. Other errors are returned unchanged.
fn unsupported_version(error: Error, version: u32) -> Error {
    match error {
        Error::Vcenter(error) if error.fault().is_some_and(|fault| fault.type_name == "NotSupported") => {
            Blocked::Spec(format!(
                "spec.minHardwareVersion: the VM's host does not support vmx-{version}. Use a version that all hosts of the cluster support, or upgrade the hosts. vCenter: {error}"
            ))
            .into()
        }
        other => other,
    }
}

/// Customizes the guest at its next start, and replaces a pending customization.
///
/// vCenter rejects a second customization until the first one is carried out or removed. If the pending customization can't be
/// removed, it is kept and the new one is dropped, so that the VM isn't blocked.
async fn customize(vsphere_vm: &MoRef, spec: &CustomizationSpec, vcenter: &VCenter) -> Result<(), Error> {
    match finish_task(vcenter.client.customize_vm(vsphere_vm, spec.clone()).await, vcenter).await {
        Err(error) if is_pending(&error) => {}
        other => return other,
    }
    tracing::info!(%vsphere_vm, "removing the pending customization");
    let none = ConfigSpec { pending_customization: Some(String::new()), ..ConfigSpec::default() };
    let again = match finish_task(vcenter.client.reconfigure_vm(vsphere_vm, none).await, vcenter).await {
        Ok(()) => finish_task(vcenter.client.customize_vm(vsphere_vm, spec.clone()).await, vcenter).await,
        Err(Error::Vcenter(error)) if !error.retryable() => {
            tracing::warn!(%vsphere_vm, %error, "cannot remove the pending customization; leaving it");
            return Ok(());
        }
        failed => failed,
    };
    match again {
        Err(error) if is_pending(&error) => {
            tracing::warn!(%vsphere_vm, "a customization is still pending; leaving it");
            Ok(())
        }
        other => other,
    }
}

/// Returns true if vCenter rejects the call because a customization is already pending.
fn is_pending(error: &Error) -> bool {
    matches!(error, Error::Vcenter(error) if error.fault().is_some_and(|fault| fault.type_name == PENDING))
}

/// Waits until the inventory shows the VM in the expected state, and returns it. Returns the old state after a timeout.
pub async fn wait_until(vsphere_vm: Arc<Vm>, vcenter: &VCenter, so: impl Fn(&Vm) -> bool) -> Arc<Vm> {
    let shown = |inventory: &Inventory| inventory.vm(&vsphere_vm.moref).present().filter(|now| so(now));
    vcenter.inventory.wait_until(SHOWN, shown).await.unwrap_or_else(|| Arc::clone(&vsphere_vm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardware_version_that_the_host_does_not_know_waits_for_a_change() {
        let refused = |type_name: &str| {
            let (message, detail) = ("The operation is not supported.".to_owned(), vsphere::Value::Null);
            let fault = vsphere::Fault { type_name: type_name.to_owned(), message, detail };
            unsupported_version(vsphere::Error::from_fault("UpgradeVM_Task", fault).into(), 99)
        };
        let Error::Blocked(Blocked::Spec(message)) = refused("NotSupported") else { panic!() };
        assert!(message.contains("minHardwareVersion") && message.contains("vmx-99"), "{message}");
        assert!(matches!(refused("TaskInProgress"), Error::Vcenter(_)));
    }
}
