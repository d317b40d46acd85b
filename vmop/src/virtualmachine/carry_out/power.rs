//! Power operations in vCenter, and waiting for tasks.

use vsphere::inventory::PowerState;
use vsphere::{Kind, MoRef};

use crate::vcenter::VCenter;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::power::state::power_word;

/// Changes the VM's power state in vCenter, and waits for the task. Succeeds if the VM is already in that state.
pub async fn set_power(vsphere_vm: &MoRef, state: PowerState, vcenter: &VCenter) -> Result<(), Error> {
    let started = match state {
        PowerState::On => vcenter.client.power_on(vsphere_vm).await,
        PowerState::Off => vcenter.client.power_off(vsphere_vm).await,
        PowerState::Suspended => vcenter.client.suspend(vsphere_vm).await,
    };
    match finish_task(started, vcenter).await {
        // Another client was faster, or the inventory lags.
        Err(Error::Vcenter(error)) if is_in(&error, state) => Ok(()),
        other => other,
    }
}

/// Returns true if vCenter rejects the call because the VM is already in the requested power state.
fn is_in(error: &vsphere::Error, state: PowerState) -> bool {
    let existing = error.fault().map(|fault| fault.detail.get("existingState").as_str().unwrap_or_default());
    matches!(error.kind(), Kind::InvalidState) && existing == Some(power_word(state))
}

/// Waits until a started task ends. Fails if the call or the task failed.
pub async fn finish_task(started: vsphere::Result<MoRef>, vcenter: &VCenter) -> Result<(), Error> {
    let ended = match started {
        Ok(task) => vcenter.inventory.wait_for_task(&task).await.map(drop),
        Err(error) => Err(error),
    };
    match ended {
        // vCenter has forgotten the task, so the task has ended.
        Err(error) if error.is_not_found() && error.method() == "Task" => Ok(()),
        other => Ok(other?),
    }
}
