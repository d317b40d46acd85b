//! Requests to a guest. Each is sent once, and the inventory shows when the guest has carried it out.

use api::names::annotation;
use api::vmop::VirtualMachine;
use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;
use vsphere::inventory::PowerState;
use vsphere::{Kind, Vm};

use super::power::set_power;
use crate::vcenter::VCenter;
use crate::virtualmachine::context::Context;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::power::operation::{guest_asked_since, soft_power_note};

/// Asks the guest to bring its VM into `state`. After the time `until`, a later reconcile changes the power state in vCenter
/// instead; `None` waits forever.
///
/// With a time limit, the time of the request is recorded in the VirtualMachine before the request, so that a restart of this
/// program doesn't extend the wait.
pub async fn ask_guest(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    state: PowerState,
    until: Option<Timestamp>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(), Error> {
    let object = ObjectRef::from_obj(vm);
    let now = Timestamp::now();
    if until.is_some() && guest_asked_since(vm, state, now).is_none() {
        let since = soft_power_note(state, now);
        let patch = json!({ "metadata": { "annotations": { annotation::SOFT_POWER: since } } });
        ctx.api.patch(vm, patch).await?;
    }
    if !ctx.guest_requests.insert(&object, state) {
        return Ok(());
    }
    tracing::info!(vsphere_vm = %vsphere_vm.moref, ?state, "asking the guest");
    let answer = match state {
        PowerState::Suspended => vcenter.client.standby_guest(&vsphere_vm.moref).await,
        PowerState::Off | PowerState::On => vcenter.client.shutdown_guest(&vsphere_vm.moref).await,
    };
    match answer {
        Ok(()) => Ok(()),
        // The guest can't do it. A hard power operation is allowed instead.
        Err(error) if until.is_some() && matches!(error.kind(), Kind::InvalidState) => {
            ctx.guest_requests.forget(&object);
            set_power(&vsphere_vm.moref, state, vcenter).await
        }
        Err(error) => {
            ctx.guest_requests.forget(&object);
            Err(error.into())
        }
    }
}
