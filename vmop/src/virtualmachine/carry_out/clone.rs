//! The clone call that creates a VM, and the adoption of a VM from an earlier call.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use bounds::Turn;
use vsphere::inventory::{Inventory, PowerState, Presence};
use vsphere::{Kind, MoRef, Vm};

use super::requests::realize_policy_anew;
use super::steps::wait_until;
use crate::vcenter::VCenter;
use crate::virtualmachine::clone::ClonePlan;
use crate::virtualmachine::context::Context;
use crate::virtualmachine::error::{Blocked, Error, TakenIdentity};
use crate::virtualmachine::facts::Facts;

/// The maximum time until the inventory shows a cloned VM.
const ENTER: Duration = Duration::from_secs(30);
/// The maximum time until the inventory shows a VM that existed before the clone call.
const SOON: Duration = Duration::from_secs(2);

/// Creates the VM. If the clone specification names an object that is gone from vCenter, all cached lookups are discarded, so
/// that the next reconcile repeats them.
pub async fn create(
    plan: Box<ClonePlan>,
    slot: Option<Turn>,
    vm: &VirtualMachine,
    facts: &Facts,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    let template = plan.template.clone();
    let made = clone_or_adopt(plan, slot, facts, vcenter).await;
    if let Err(Error::Vcenter(error)) = &made
        && error.is_not_found()
    {
        Box::pin(look_up_anew(&template, vm, vcenter, ctx)).await;
    }
    made.map_err(|error| name_template(error, &template, vcenter))
}

/// Faults that vCenter reports if a file of the clone's source is missing. Device changes can cause some of them, too.
const SOURCE_FAULTS: [&str; 4] =
    ["InvalidDeviceSpec", "InvalidDeviceBacking", "FileNotFound", "CannotAccessFile"];

/// Adds the template's name to an error that a missing template disk may have caused, because neither the fault nor the VM's
/// spec names the template.
fn name_template(error: Error, template: &MoRef, vcenter: &VCenter) -> Error {
    let is_source = |error: &vsphere::Error| {
        error.fault().is_some_and(|fault| SOURCE_FAULTS.contains(&fault.type_name.as_str()))
    };
    match error {
        Error::Vcenter(error) if is_source(&error) => {
            let named = vcenter.inventory.vm(template).present();
            let named = named
                .map_or_else(|| template.id().to_owned(), |vm| format!("{} ({})", vm.name, template.id()));
            Error::Clone(error, named)
        }
        other => other,
    }
}

/// Clones the VM, or adopts the VM from an earlier attempt that succeeded.
///
/// The clone specification and the `slot` are released as soon as vCenter has accepted or rejected the call.
pub async fn clone_or_adopt(
    plan: Box<ClonePlan>,
    slot: Option<Turn>,
    facts: &Facts,
    vcenter: &VCenter,
) -> Result<Arc<Vm>, Error> {
    let ClonePlan { template, folder, name, spec } = unbox(plan);
    tracing::info!(%template, %folder, "cloning");
    let runs = spec.power_on;
    let begun = Box::pin(vcenter.client.clone_vm(&template, &folder, &name, spec)).await;
    drop(slot);
    let made = match begun {
        Ok(task) => vcenter.inventory.wait_for_task(&task).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(done) => match done.moref() {
            Some(moref) => {
                let vsphere_vm = vcenter.inventory.wait_for_vm(moref, ENTER).await?;
                // The inventory may show that the VM is running only after the task has ended.
                let on = |vsphere_vm: &Vm| vsphere_vm.power_state == Some(PowerState::On);
                Ok(if runs { wait_until(vsphere_vm, vcenter, on).await } else { vsphere_vm })
            }
            None => {
                Err(Error::Unsettled("The clone is complete, but vCenter does not report the VM yet".into()))
            }
        },
        Err(error) => match error.kind() {
            Kind::DuplicateName { .. } => Box::pin(adopt(&folder, &name, facts, vcenter)).await,
            _ => Err(error.into()),
        },
    }
}

/// Moves the plan out of its box, and frees the box.
fn unbox(plan: Box<ClonePlan>) -> ClonePlan {
    *plan
}

/// Returns the VM with this name if an earlier attempt created it for this VirtualMachine. Fails if the name belongs to another
/// VM, or to a vCenter object of another type.
///
/// A VM that is still being created doesn't have a reference yet. The inventory stream shows the VM once it has one.
async fn adopt(folder: &MoRef, name: &str, facts: &Facts, vcenter: &VCenter) -> Result<Arc<Vm>, Error> {
    let named = |inventory: &Inventory| inventory.by_name(folder, name).present();
    let found = vcenter.inventory.wait_until(SOON, named).await;
    if let (None, Presence::Unavailable(vsphere_vm)) = (&found, vcenter.inventory.by_name(folder, name)) {
        return Err(Blocked::Unavailable(vsphere_vm).into());
    }
    let vsphere_vm = match found {
        Some(vsphere_vm) => vsphere_vm,
        None => match vcenter.client.find_child(folder, name).await? {
            Some(holder) if holder.kind() == "VirtualMachine" => {
                vcenter.inventory.wait_for_vm(&holder, ENTER).await?
            }
            Some(holder) => {
                let what = format!("The name {name} in its folder");
                return Err(Blocked::Claimed(TakenIdentity { what, holder: Some(holder.to_string()) }).into());
            }
            None => {
                let message = format!("vCenter is still working on a VM with the name {name}");
                return Err(Error::Unsettled(message));
            }
        },
    };
    if facts.mark.is_on(&vsphere_vm) && facts.identity.is_of(&vsphere_vm) {
        tracing::info!(vsphere_vm = %vsphere_vm.moref, "an earlier clone has succeeded");
        return Ok(vsphere_vm);
    }
    let what = format!("The name {name} in its folder");
    Err(Blocked::Claimed(TakenIdentity { what, holder: facts.mark.describe_holder(&vsphere_vm) }).into())
}

/// Discards the cached template, storage and policy, because an object that the clone specification names is gone from vCenter.
async fn look_up_anew(template: &MoRef, vm: &VirtualMachine, vcenter: &VCenter, ctx: &Context) {
    ctx.templates.forget(template);
    vcenter.forget_storage().await;
    realize_policy_anew(vm, vcenter, ctx);
}
