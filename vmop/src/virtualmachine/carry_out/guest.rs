//! Requests to a guest: it is asked once, and the stream tells when it has done it.

use std::collections::HashMap;

use api::names::annotation;
use api::vmop::VirtualMachine;
use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use serde_json::json;
use vsphere::inventory::PowerState;
use vsphere::{Kind, Vm};

use crate::vcenter::VCenter;
use crate::virtualmachine::carry_out::steps::powered;
use crate::virtualmachine::{Context, Error, power};

/// The guests that this process has asked to shut down or to stand by.
///
/// After a restart of this program a guest is asked once more, which does no harm.
#[derive(Default)]
pub struct Asked(Mutex<HashMap<ObjectRef<VirtualMachine>, PowerState>>);

impl Asked {
    /// The guest is asked for nothing any more.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.0.lock().remove(vm);
    }

    /// Notes the request; false if it was made already.
    fn note(&self, vm: &ObjectRef<VirtualMachine>, state: PowerState) -> bool {
        self.0.lock().insert(vm.clone(), state) != Some(state)
    }
}

/// The guest is asked to bring its machine into `state`; `until` is when vCenter does it, if the guest does not.
///
/// Since when it is asked is on the object before it is asked, so that a restart of this program gives it no more time.
pub async fn asked(
    vm: &VirtualMachine,
    machine: &Vm,
    state: PowerState,
    until: Option<Timestamp>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(), Error> {
    let object = ObjectRef::from_obj(vm);
    if until.is_some() && power::asked_since(vm, state).is_none() {
        let since = power::asked(state, Timestamp::now());
        let patch = json!({ "metadata": { "annotations": { annotation::SOFT_POWER: since } } });
        ctx.api.patch(vm, patch).await?;
    }
    if !ctx.asked.note(&object, state) {
        return Ok(());
    }
    tracing::info!(machine = %machine.moref, ?state, "asking the guest");
    let answer = match state {
        PowerState::Suspended => vcenter.client.standby_guest(&machine.moref).await,
        PowerState::Off | PowerState::On => vcenter.client.shutdown_guest(&machine.moref).await,
    };
    match answer {
        Ok(()) => Ok(()),
        // The guest can't, and need not.
        Err(error) if until.is_some() && matches!(error.kind(), Kind::InvalidState) => {
            ctx.asked.forget(&object);
            powered(&machine.moref, state, vcenter).await
        }
        Err(error) => {
            ctx.asked.forget(&object);
            Err(error.into())
        }
    }
}
