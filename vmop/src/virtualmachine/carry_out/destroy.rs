//! The end of a VM in vCenter: power off, detach what is not its own, destroy.

use std::sync::Arc;
use std::time::Duration;

use vsphere::inventory::{Inventory, PowerState, Presence};
use vsphere::{ConfigSpec, DeviceChange, DiskChange, Vm};

use super::power::set_power;
use crate::vcenter::VCenter;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::storage::disks;

/// How long the inventory may take to show that a VM is off, or gone.
const SHOWN: Duration = Duration::from_secs(10);

fn is_off(machine: &Vm) -> bool {
    machine.power_state.is_none_or(|state| state == PowerState::Off)
}

/// The machine is off; as it is then, or `None` if it is gone.
///
/// What somebody did to it before, such as hanging a disk on it, the stream tells before it tells of its end.
pub async fn power_off(machine: &Vm, vcenter: &VCenter) -> Result<Option<Arc<Vm>>, Error> {
    if !is_off(machine) {
        match set_power(&machine.moref, PowerState::Off, vcenter).await {
            Err(Error::Vcenter(error)) if error.is_not_found() => return Ok(None),
            // The stream lags: destroying tells.
            Err(Error::Vcenter(error)) if matches!(error.kind(), vsphere::Kind::InvalidState) => {}
            other => other?,
        }
    }
    let shown = |inventory: &Inventory| match inventory.vm(&machine.moref) {
        Presence::Present(machine) if is_off(&machine) => Some(machine),
        // Outside our folders, or gone meanwhile: destroying shows.
        Presence::Absent => Some(Arc::new(machine.clone())),
        Presence::Present(_) | Presence::Unknown => None,
    };
    let off = vcenter.inventory.wait_until(SHOWN, shown).await;
    off.map(Some).ok_or_else(|| Error::Unsettled(format!("{} is being powered off", machine.name)))
}

/// The machine is off and destroyed, with its disks.
pub async fn destroy(machine: &Vm, vcenter: &VCenter) -> Result<(), Error> {
    let lags = is_off(machine);
    let Some(machine) = power_off(machine, vcenter).await? else { return Ok(()) };
    match detach_foreign_disks(&machine, lags, vcenter).await {
        Err(Error::Vcenter(error)) if error.is_not_found() => return Ok(()),
        other => other?,
    }
    tracing::info!(machine = %machine.moref, "destroying");
    let done = async {
        let task = vcenter.client.destroy(&machine.moref).await?;
        vcenter.inventory.wait_for_task(&task).await
    };
    match done.await {
        Err(error) if error.is_not_found() => {
            // Either the machine or only the memory of the task is gone: the next pass tells which.
            let left =
                |inventory: &Inventory| (inventory.vm(&machine.moref) == Presence::Absent).then_some(());
            let left = vcenter.inventory.wait_until(SHOWN, left).await;
            left.ok_or_else(|| Error::Unsettled(format!("{} is being destroyed", machine.name)))
        }
        other => other.map(drop).map_err(Error::from),
    }
}

/// Disks that we did not make are detached: what destroys a machine destroys all that hangs on it.
///
/// Of a machine that was off before, the stream may not have told the latest: it is asked for.
async fn detach_foreign_disks(machine: &Vm, lags: bool, vcenter: &VCenter) -> Result<(), Error> {
    if !lags && !disks::may_have_foreign(machine) {
        return Ok(());
    }
    let devices = vcenter.client.devices(&machine.moref).await?;
    let foreign = disks::foreign(machine, &devices);
    if foreign.is_empty() {
        return Ok(());
    }
    tracing::info!(machine = %machine.moref, disks = foreign.len(), "detaching disks that are not the machine's own");
    let changes = foreign.into_iter().map(|disk| DeviceChange::Disk(DiskChange::Detach(disk)));
    let spec = ConfigSpec { device_change: changes.collect(), ..ConfigSpec::default() };
    let task = vcenter.client.reconfigure_vm(&machine.moref, spec).await?;
    vcenter.inventory.wait_for_task(&task).await?;
    Ok(())
}
