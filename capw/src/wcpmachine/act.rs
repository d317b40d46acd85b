//! All writes of a WCPMachine reconcile, except status and deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capw::WCPMachine;
use api::names::finalizer;
use api::vmop::VirtualMachine;
use kit::events::describe_object;
use kube::ResourceExt;
use serde_json::json;

use super::context::Context;
use super::gather::Facts;
use super::plan::{MachineObjects, Plan, Then};
use super::repair;
use crate::error::Error;

/// The result of a plan that was carried out.
pub enum Done {
    /// The VM existed and is gone. capw doesn't create it again.
    Lost,
    /// The VirtualMachine was applied. Contains the API server's response.
    Asked(Arc<VirtualMachine>),
}

/// Carries out the plan, starting with the identity. Sets `wcp_machine` to the version that was written.
pub async fn carry_out(
    wcp_machine: &mut Arc<WCPMachine>,
    plan: Plan,
    facts: &Facts,
    ctx: &Context,
) -> Result<Done, Error> {
    let Plan { identity, move_block, then } = plan;
    if let Some(provider_id) = identity {
        *wcp_machine = Arc::new(persist_identity(wcp_machine, &provider_id, &move_block, ctx).await?);
    }
    match then {
        Then::Wait(waiting) => Err(waiting.into()),
        Then::Lost => Ok(Done::Lost),
        Then::Apply(make) => {
            let replaced = facts.vm.as_deref().map(|live| repair::replaced_fields(live, &make.vm));
            let vm = apply_objects(*make, facts, ctx).await?;
            if let Some(replaced) = replaced.filter(|replaced| !replaced.is_empty()) {
                let what = replaced.join(", ");
                let vm = describe_object(&*vm);
                ctx.events.warning(
                    &**wcp_machine,
                    "VirtualMachineRepaired",
                    format!("{vm}: {what} was changed by another client and has been restored. Check who is allowed to change the object"),
                );
            }
            if facts.vm.is_none() {
                ctx.events.normal(
                    &**wcp_machine,
                    "VirtualMachineCreated",
                    format!("{} was created", describe_object(&*vm)),
                );
            }
            Ok(Done::Asked(vm))
        }
    }
}

/// Writes the finalizer and the providerID in one request, so that two leaders can't both succeed.
async fn persist_identity(
    wcp_machine: &WCPMachine,
    provider_id: &str,
    move_block: &BTreeMap<&str, &str>,
    ctx: &Context,
) -> Result<WCPMachine, Error> {
    let mut finalizers = wcp_machine.finalizers().to_vec();
    if !finalizers.iter().any(|there| there == finalizer::WCP_MACHINE) {
        finalizers.push(finalizer::WCP_MACHINE.to_owned());
    }
    let patch = json!({
        "metadata": { "finalizers": finalizers, "annotations": move_block },
        "spec": { "providerID": provider_id },
    });
    ctx.api.patch(wcp_machine, patch).await.map_err(Error::api(wcp_machine, "persisting the providerID of"))
}

/// Creates the Secret and the claims before the VirtualMachine that references them. If another client has just created one of
/// these objects, it isn't overwritten, because it may belong to another owner.
async fn apply_objects(
    make: MachineObjects,
    facts: &Facts,
    ctx: &Context,
) -> Result<Arc<VirtualMachine>, Error> {
    let MachineObjects { cloud_init, claims, vm } = make;
    if let Some(secret) = cloud_init {
        ctx.api.create(&secret).await.map_err(Error::api(&secret, "creating"))?;
    }
    for claim in claims {
        ctx.api.create(&claim).await.map_err(Error::api(&claim, "creating"))?;
    }
    let applied = ctx.api.create_or_apply(&vm, facts.vm.as_ref()).await;
    let applied = applied.map_err(Error::api(&vm, "applying"))?;
    Ok(Arc::clone(applied.object()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use api::names::label;
    use api::vmop::vm_phase;

    use super::*;
    use crate::fixtures::{answering_client, facts, no_caches, wcp_machine};
    use crate::wcpmachine::plan::plan;

    /// Returns the planned VirtualMachine, and the WCPMachine with its identity persisted.
    fn planned() -> (WCPMachine, VirtualMachine) {
        let mut wcp_machine = wcp_machine();
        let Plan { identity, then, .. } = plan(&wcp_machine, &facts(true)).unwrap();
        wcp_machine.spec.provider_id = identity;
        wcp_machine.metadata.finalizers = Some(vec![finalizer::WCP_MACHINE.to_owned()]);
        let Then::Apply(objects) = then else { panic!("it is asked for") };
        let MachineObjects { mut vm, .. } = *objects;
        vm.metadata.uid = Some("uid-of-vm".to_owned());
        vm.status.get_or_insert_default().phase = Some(vm_phase::CREATED.to_owned());
        (wcp_machine, vm)
    }

    #[tokio::test]
    async fn capw_restores_replaced_fields_of_a_vm_and_reports_an_event() {
        let (wcp_machine, vm) = planned();
        let mut live = vm.clone();
        live.metadata.owner_references = None;
        live.metadata.labels.as_mut().unwrap().remove(label::CAPW_CLUSTER_NAME);
        live.spec.vm_metadata.as_mut().unwrap().secret_name = Some("b-kubeconfig".to_owned());
        let facts = Facts { vm: Some(Arc::new(live)), ..facts(true) };
        let plan = plan(&wcp_machine, &facts).unwrap();
        let sent = Arc::<Mutex<Vec<String>>>::default();
        let ctx = Context::detached(no_caches(), answering_client(&sent, 200, json!(vm)));
        let done = carry_out(&mut Arc::new(wcp_machine), plan, &facts, &ctx).await.unwrap();
        assert!(matches!(done, Done::Asked(_)));
        let applied = sent.lock().unwrap()[0].clone();
        assert!(applied.starts_with("PATCH") && applied.contains("/virtualmachines/"), "{applied}");
        for part in ["machine-cloud-init", "uid-of-machine", label::CAPW_CLUSTER_NAME] {
            assert!(applied.contains(part), "{part}: {applied}");
        }
        let event = async {
            loop {
                let events = sent.lock().unwrap().iter().find(|line| line.contains("/events")).cloned();
                match events {
                    Some(event) => return event,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let event = tokio::time::timeout(Duration::from_secs(20), event).await.expect("an event");
        for part in ["VirtualMachineRepaired", "spec.vmMetadata, metadata.ownerReferences, metadata.labels"] {
            assert!(event.contains(part), "{event}");
        }
    }
}
