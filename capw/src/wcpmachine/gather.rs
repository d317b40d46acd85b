//! Every read of a WCPMachine's reconcile.

use super::{Context, Error};
use crate::upstream::{self, beside};
use api::{
    capi::{Cluster, Machine},
    capw::WCPMachine,
    names,
    vmop::{VirtualMachine, vm_phase},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use std::sync::Arc;
use uuid::Uuid;

/// What is known when a plan is made.
pub struct Facts {
    /// The Machine that owns the WCPMachine.
    pub machine: Option<Arc<Machine>>,
    /// The Cluster that the Machine belongs to.
    pub cluster: Option<Arc<Cluster>>,
    /// The VirtualMachine of the Machine's name.
    pub vm: Option<Arc<VirtualMachine>>,
    /// What the node is to boot from.
    pub bootstrap: Bootstrap,
    /// Nobody may act on the WCPMachine.
    pub paused: bool,
    /// A UUID drawn for this reconcile, for a machine that has none yet.
    pub drawn: Uuid,
}

/// What the node is to boot from. Never printed: it holds the cluster's keys.
pub enum Bootstrap {
    /// It is not to be had yet, or not needed any more.
    NotRead,
    /// The cloud-init Secret is there already.
    Kept,
    /// Cluster API names a Secret that is not there.
    Missing(String),
    /// Cluster API's bootstrap Secret.
    Read(Box<Secret>),
}

/// Reads what the plan needs. Secrets are read only while there is no virtual machine yet.
pub async fn facts(machine: &WCPMachine, ctx: &Context) -> Result<Facts, Error> {
    let owner =
        upstream::owner(machine, "Machine").and_then(|name| beside(&ctx.caches.machines, machine, name));
    let cluster_name = owner
        .as_deref()
        .map(|owner| owner.spec.cluster_name.clone())
        .or_else(|| machine.labels().get(names::label::CLUSTER_NAME).cloned());
    let cluster = cluster_name.and_then(|name| beside(&ctx.caches.clusters, machine, &name));
    let vm = match upstream::owner(machine, "Machine") {
        Some(name) => virtual_machine(machine, name, ctx).await?,
        None => None,
    };
    let paused = upstream::is_paused(machine, cluster.as_deref());
    let mut facts =
        Facts { machine: owner, cluster, vm, bootstrap: Bootstrap::NotRead, paused, drawn: Uuid::new_v4() };
    if wants_bootstrap(machine, &facts) {
        facts.bootstrap = bootstrap(machine, &facts, ctx).await?;
    }
    Ok(facts)
}

/// The virtual machine of this name, as the cache has it.
///
/// On the way out the API server itself is asked before it counts as gone: a write whose answer was lost may be
/// younger than the cache, and whoever lets the WCPMachine go then leaves a virtual machine behind.
async fn virtual_machine(
    machine: &WCPMachine,
    name: &str,
    ctx: &Context,
) -> Result<Option<Arc<VirtualMachine>>, Error> {
    let namespace = machine.meta().namespace.as_deref();
    let cached = ctx.caches.vms.current(namespace, name)?;
    if cached.is_some() || machine.meta().deletion_timestamp.is_none() {
        return Ok(cached);
    }
    let found = ctx.api.get(namespace, name).await;
    let found =
        found.map_err(|source| Error::Api { what: format!("reading VirtualMachine {name}"), source })?;
    Ok(found.map(Arc::new))
}

/// Whether the cloud-init Secret has still to be there: the cluster is ready for the machine, which is not made yet.
fn wants_bootstrap(machine: &WCPMachine, facts: &Facts) -> bool {
    let made = facts.vm.as_deref().is_some_and(is_made);
    let cluster_ready = facts.cluster.as_deref().is_some_and(upstream::infrastructure_provisioned);
    !facts.paused && machine.meta().deletion_timestamp.is_none() && !made && cluster_ready
}

/// Whether vCenter has the virtual machine.
pub fn is_made(vm: &VirtualMachine) -> bool {
    vm.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some(vm_phase::CREATED))
}

async fn bootstrap(machine: &WCPMachine, facts: &Facts, ctx: &Context) -> Result<Bootstrap, Error> {
    let name = facts.machine.as_deref().and_then(|owner| owner.spec.bootstrap.data_secret_name.clone());
    let Some(name) = name else { return Ok(Bootstrap::NotRead) };
    let kept = names::cloud_init_secret(&machine.name_any());
    if let Some(secret) = secret(machine, &kept, ctx).await?
        && is_controlled(&secret, machine)
    {
        return Ok(Bootstrap::Kept);
    }
    Ok(secret(machine, &name, ctx)
        .await?
        .map_or(Bootstrap::Missing(name), |found| Bootstrap::Read(Box::new(found))))
}

async fn secret(machine: &WCPMachine, name: &str, ctx: &Context) -> Result<Option<Secret>, Error> {
    ctx.api
        .get(machine.meta().namespace.as_deref(), name)
        .await
        .map_err(|source| Error::Api { what: format!("reading Secret {name}"), source })
}

/// Whether the Secret is this very WCPMachine's, not one left by a former one of its name.
fn is_controlled(secret: &Secret, machine: &WCPMachine) -> bool {
    secret.owner_references().iter().any(|owner| Some(&owner.uid) == machine.meta().uid.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{client, no_caches, wcp_machine};
    use api::vmop::VirtualMachineSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kit::{Runtime, apply::Api, events::Events};

    /// Whether a virtual machine is found that the cache does not show and the API server has, or has not.
    async fn is_found(deleted: bool, there: bool) -> bool {
        let vm = VirtualMachine::new("test-cluster-control-plane-jwsx7", VirtualMachineSpec::default());
        let started = Runtime::detached(client(there.then(|| serde_json::to_value(vm).unwrap())));
        let ctx = Context {
            caches: Arc::new(no_caches()),
            api: Api::new(&started, "test"),
            events: Events::new(&started, "test"),
        };
        let mut machine = wcp_machine();
        machine.metadata.deletion_timestamp = deleted.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        facts(&machine, &ctx).await.unwrap().vm.is_some()
    }

    #[tokio::test]
    async fn a_virtual_machine_that_the_cache_has_not_seen_holds_up_the_end() {
        assert!(is_found(true, true).await);
        assert!(!is_found(true, false).await);
        assert!(!is_found(false, true).await, "while it lives, the cache will do");
    }
}
