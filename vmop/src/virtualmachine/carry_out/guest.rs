//! Requests to a guest: it is asked once, and the inventory shows when it has done it.

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

/// Asks the guest to bring its VM into `state`; `until` is when vCenter does it, if the guest does not.
///
/// Since when it is asked is on the object before it is asked, so that a restart of this program gives it no more time.
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
        // The guest can't, and need not.
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
