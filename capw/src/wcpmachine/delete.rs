//! The end of a WCPMachine: its virtual machine first, then what that booted from, then the object.
//!
//! Nothing is left to the garbage collector: a finalizer that goes too early would orphan a real machine.

use api::capw::WCPMachine;
use api::names::{self, finalizer};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kit::events::named;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::act::Done;
use super::context::Context;
use super::gather::Facts;
use super::plan::{claim_name, whose};
use crate::error::{Error, Waiting};
use crate::upstream::{self, Claim};

/// One step towards the end; waits while the virtual machine is still there.
pub async fn carry_out(wcp_machine: &WCPMachine, facts: &Facts, ctx: &Context) -> Result<Done, Error> {
    if !wcp_machine.finalizers().iter().any(|there| there == finalizer::WCP_MACHINE) {
        return Ok(Done::Gone);
    }
    // A namesake that is another's is none of our business, now as before.
    if let Some(vm) = facts.vm.as_deref()
        && whose(wcp_machine, Some(vm)) == Claim::Free
    {
        ctx.api.delete(vm).await.map_err(Error::api(vm, "deleting"))?;
        return Err(Waiting::VirtualMachineGone(named(vm)).into());
    }
    let secret = Secret {
        metadata: beside(wcp_machine, names::cloud_init_secret(&wcp_machine.name_any())),
        ..Secret::default()
    };
    ctx.api.delete(&secret).await.map_err(Error::api(&secret, "deleting"))?;
    if let Some(machine) = upstream::owner(wcp_machine, "Machine") {
        for volume in &wcp_machine.spec.volumes {
            let metadata = beside(wcp_machine, claim_name(machine, volume));
            let claim = PersistentVolumeClaim { metadata, ..PersistentVolumeClaim::default() };
            ctx.api.delete(&claim).await.map_err(Error::api(&claim, "deleting"))?;
        }
    }
    let removed = ctx.api.remove_finalizer(wcp_machine, finalizer::WCP_MACHINE).await;
    removed.map_err(Error::api(wcp_machine, "taking the finalizer off"))?;
    Ok(Done::Gone)
}

fn beside(wcp_machine: &WCPMachine, name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), namespace: wcp_machine.namespace(), ..ObjectMeta::default() }
}
