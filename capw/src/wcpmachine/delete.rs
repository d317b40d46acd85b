//! The end of a WCPMachine: its virtual machine first, then what that booted from, then the object.
//!
//! Nothing is left to the garbage collector: a finalizer that goes too early would orphan a real machine.

use super::{
    Context, Error,
    act::{Done, failed},
    gather::Facts,
    plan::{Waiting, claim_name, whose},
};
use crate::upstream::{self, Claim};
use api::{
    capw::WCPMachine,
    names::{self, finalizer},
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kit::events::named;
use kube::{ResourceExt, api::ObjectMeta};

/// One step towards the end; waits while the virtual machine is still there.
pub async fn carry_out(machine: &WCPMachine, facts: &Facts, ctx: &Context) -> Result<Done, Error> {
    if !machine.finalizers().iter().any(|there| there == finalizer::WCP_MACHINE) {
        return Ok(Done::Gone);
    }
    // A namesake that is another's is none of our business, now as before.
    if let Some(vm) = facts.vm.as_deref()
        && whose(machine, Some(vm)) == Claim::Free
    {
        ctx.api.delete(vm).await.map_err(failed(vm, "deleting"))?;
        return Err(Waiting::VirtualMachineGone(named(vm)).into());
    }
    let secret = Secret {
        metadata: beside(machine, names::cloud_init_secret(&machine.name_any())),
        ..Secret::default()
    };
    ctx.api.delete(&secret).await.map_err(failed(&secret, "deleting"))?;
    if let Some(owner) = upstream::owner(machine, "Machine") {
        for volume in &machine.spec.volumes {
            let metadata = beside(machine, claim_name(owner, volume));
            let claim = PersistentVolumeClaim { metadata, ..PersistentVolumeClaim::default() };
            ctx.api.delete(&claim).await.map_err(failed(&claim, "deleting"))?;
        }
    }
    let removed = ctx.api.remove_finalizer(machine, finalizer::WCP_MACHINE).await;
    removed.map_err(failed(machine, "taking the finalizer off"))?;
    Ok(Done::Gone)
}

fn beside(machine: &WCPMachine, name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), namespace: machine.namespace(), ..ObjectMeta::default() }
}
