//! Every write of a WCPMachine's reconcile, status and deletion aside.

use super::{
    Context, Error,
    gather::Facts,
    plan::{Make, Plan, Then},
};
use api::{capw::WCPMachine, names::finalizer, vmop::VirtualMachine};
use kit::events::named;
use kube::{Resource, ResourceExt};
use serde_json::json;
use std::sync::Arc;

/// What a reconcile came to.
pub enum Done {
    /// Nobody may act.
    Nothing,
    /// The virtual machine was there and is gone; it is not made again.
    Lost,
    /// The virtual machine is asked for, and is as this says.
    Asked(Arc<VirtualMachine>),
    /// The WCPMachine itself is gone.
    Gone,
}

/// Carries the plan out, the identity first; `machine` is then as it was written.
pub async fn carry_out(
    machine: &mut Arc<WCPMachine>,
    plan: Plan,
    facts: &Facts,
    ctx: &Context,
) -> Result<Done, Error> {
    let Plan { identity, then } = plan;
    if let Some(provider_id) = identity {
        *machine = Arc::new(persisted(machine, &provider_id, ctx).await?);
    }
    match then {
        Then::Wait(waiting) => Err(waiting.into()),
        Then::Lost => Ok(Done::Lost),
        Then::Make(make) => {
            let vm = make_so(*make, facts, ctx).await?;
            if facts.vm.is_none() {
                ctx.events.normal(
                    &**machine,
                    "VirtualMachineCreated",
                    format!("{} is asked for", named(&*vm)),
                );
            }
            Ok(Done::Asked(vm))
        }
    }
}

/// Finalizer and providerID in one write, which only one of two leaders can win.
async fn persisted(machine: &WCPMachine, provider_id: &str, ctx: &Context) -> Result<WCPMachine, Error> {
    let mut finalizers = machine.finalizers().to_vec();
    if !finalizers.iter().any(|there| there == finalizer::WCP_MACHINE) {
        finalizers.push(finalizer::WCP_MACHINE.to_owned());
    }
    let patch = json!({ "metadata": { "finalizers": finalizers }, "spec": { "providerID": provider_id } });
    ctx.api.patch(machine, patch).await.map_err(failed(machine, "persisting the providerID of"))
}

/// What a virtual machine refers to is there before it is.
async fn make_so(make: Make, facts: &Facts, ctx: &Context) -> Result<Arc<VirtualMachine>, Error> {
    let Make { cloud_init, claims, vm } = make;
    if let Some(secret) = cloud_init {
        ctx.api.apply(&secret, None).await.map_err(failed(&secret, "applying"))?;
    }
    for claim in claims {
        ctx.api.apply(&claim, None).await.map_err(failed(&claim, "applying"))?;
    }
    let applied = ctx.api.apply(&vm, facts.vm.as_ref()).await.map_err(failed(&vm, "applying"))?;
    Ok(Arc::clone(applied.object()))
}

/// Says which write of which object went wrong.
pub fn failed<K: Resource<DynamicType = ()>>(object: &K, what: &str) -> impl FnOnce(kube::Error) -> Error {
    let what = format!("{what} {}", named(object));
    move |source| Error::Api { what, source }
}
