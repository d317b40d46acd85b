//! Destroys a VM in vCenter: powers it off, detaches foreign disks, and destroys it.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::vmop as known;
use vsphere::inventory::{Inventory, PowerState, Presence};
use vsphere::{ConfigSpec, DeviceChange, DiskChange, VirtualDisk, Vm};

use super::power::set_power;
use crate::unmet::Unmet;
use crate::vcenter::VCenter;
use crate::virtualmachine::error::{Blocked, Error};
use crate::virtualmachine::storage::record::DiskRecord;

/// The maximum time until the inventory shows that a VM is off or gone.
const SHOWN: Duration = Duration::from_secs(10);

fn is_off(vsphere_vm: &Vm) -> bool {
    vsphere_vm.power_state.is_none_or(|state| state == PowerState::Off)
}

/// Powers off the VM, and returns its state after that, or `None` if it is gone.
///
/// The inventory stream shows earlier changes to the VM, such as an attached disk, before it shows that the VM is off.
pub async fn power_off(vsphere_vm: &Vm, vcenter: &VCenter) -> Result<Option<Arc<Vm>>, Error> {
    if !is_off(vsphere_vm) {
        match set_power(&vsphere_vm.moref, PowerState::Off, vcenter).await {
            Err(Error::Vcenter(error)) if error.is_not_found() => {
                return confirm_gone(vsphere_vm, vcenter).await.map(|()| None);
            }
            // The inventory stream lags. The destroy call shows if the VM is off.
            Err(Error::Vcenter(error)) if matches!(error.kind(), vsphere::Kind::InvalidState) => {}
            other => other?,
        }
    }
    let shown = |inventory: &Inventory| match inventory.vm(&vsphere_vm.moref) {
        Presence::Present(vsphere_vm) if is_off(&vsphere_vm) => Some(vsphere_vm),
        // The VM is outside the watched folders or gone. The destroy call shows which.
        Presence::Absent => Some(Arc::new(vsphere_vm.clone())),
        Presence::Present(_) | Presence::Unavailable(_) | Presence::Unknown => None,
    };
    let off = vcenter.inventory.wait_until(SHOWN, shown).await;
    off.map(Some).ok_or_else(|| Error::Unsettled(format!("{} is being powered off", vsphere_vm.name)))
}

/// Powers off the VM, detaches foreign disks, and destroys the VM with its own disks.
pub async fn destroy(vsphere_vm: &Vm, record: &DiskRecord, vcenter: &VCenter) -> Result<(), Error> {
    let lags = is_off(vsphere_vm);
    let Some(vsphere_vm) = power_off(vsphere_vm, vcenter).await? else { return Ok(()) };
    match detach_foreign_disks(&vsphere_vm, record, lags, vcenter).await {
        Err(Error::Vcenter(error)) if error.is_not_found() => {
            return confirm_gone(&vsphere_vm, vcenter).await;
        }
        other => other?,
    }
    tracing::info!(vsphere_vm = %vsphere_vm.moref, "destroying");
    match vcenter.destroy(&vsphere_vm.moref).await {
        Err(error) if error.is_not_found() => confirm_gone(&vsphere_vm, vcenter).await,
        other => other.map_err(Error::from),
    }
}

/// Checks in vCenter that the VM is gone, after a call didn't find an object. That object may only be a task that vCenter has
/// forgotten.
async fn confirm_gone(vsphere_vm: &Vm, vcenter: &VCenter) -> Result<(), Error> {
    match vcenter.client.devices(&vsphere_vm.moref).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(Error::Unsettled(format!("{} is being destroyed", vsphere_vm.name))),
    }
}

/// Detaches foreign disks, because destroying a VM destroys all attached disks.
///
/// If the VM was off before, the inventory may lag, so the devices are read from vCenter. The devices are also read before a
/// detach, so that the detach fails if they change meanwhile.
async fn detach_foreign_disks(
    vsphere_vm: &Vm,
    record: &DiskRecord,
    lags: bool,
    vcenter: &VCenter,
) -> Result<(), Error> {
    let shown = vsphere_vm.devices.as_ref().filter(|_| !lags);
    if shown.is_some_and(|devices| record.foreign(vsphere_vm, devices).is_empty()) {
        return Ok(());
    }
    let devices = vcenter.client.devices(&vsphere_vm.moref).await?;
    let foreign = record.foreign(vsphere_vm, &devices);
    if foreign.is_empty() {
        return Ok(());
    }
    confirm_no_snapshots(vsphere_vm, &foreign, vcenter).await?;
    tracing::info!(vsphere_vm = %vsphere_vm.moref, disks = foreign.len(), "detaching disks that are not the VM's own");
    let changes = foreign.into_iter().map(|disk| DeviceChange::Disk(DiskChange::Detach(disk)));
    let spec = ConfigSpec {
        change_version: Some(devices.change_version),
        device_change: changes.collect(),
        ..ConfigSpec::default()
    };
    let task = vcenter.client.reconfigure_vm(&vsphere_vm.moref, spec).await?;
    vcenter.inventory.wait_for_task(&task).await?;
    Ok(())
}

/// The property that contains a VM's root snapshots.
const SNAPSHOTS: &str = "rootSnapshot";

/// Refuses to detach disks while the VM has snapshots that can contain them. vCenter either refuses to detach such a disk, or
/// destroys its files with the VM, because the snapshot needs them.
async fn confirm_no_snapshots(
    vsphere_vm: &Vm,
    foreign: &[VirtualDisk],
    vcenter: &VCenter,
) -> Result<(), Error> {
    let disks = foreign.iter().filter(|disk| !disk.is_independent()).count();
    if disks == 0 {
        return Ok(());
    }
    let read = vcenter.client.retrieve(std::slice::from_ref(&vsphere_vm.moref), &[SNAPSHOTS]).await?;
    if read.first().is_none_or(|vm| vm.get(SNAPSHOTS).items().is_empty()) {
        return Ok(());
    }
    let name = &vsphere_vm.name;
    let message = format!(
        "Deletion of the VM is blocked by its snapshots in vCenter: {disks} disk(s) that VM Operator did not create can't be detached while the VM has snapshots, and must not be destroyed with it. Remove the snapshots in the vSphere Client, or with `govc snapshot.remove -vm {name} '*'`"
    );
    Err(Blocked::Unmet(Unmet::in_vcenter(known::HELD_BACK, message)).into())
}
