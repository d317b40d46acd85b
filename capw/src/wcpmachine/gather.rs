//! All reads of a WCPMachine reconcile.

use std::sync::Arc;

use api::capi::{Cluster, Machine};
use api::capw::WCPMachine;
use api::names;
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachine, vm_phase};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kit::watch::Watchable;
use kube::{Resource, ResourceExt};
use uuid::Uuid;

use super::context::Context;
use super::identity::{claim_name, is_claimed, whose};
use super::vm_name::vm_name;
use crate::error::Error;
use crate::network::NetworkProvider;
use crate::upstream::{self, NameAvailability, beside, is_controlled};
use crate::virtual_router::virtual_router;

/// The facts that [`facts`] read for one reconcile.
pub struct Facts {
    /// The Machine that owns the WCPMachine and references it.
    pub machine: Option<Arc<Machine>>,
    pub cluster: Option<Arc<Cluster>>,
    /// The VirtualMachine with the expected name, which may belong to another owner.
    pub vm: Option<Arc<VirtualMachine>>,
    /// The node's bootstrap data.
    pub bootstrap: BootstrapSource,
    /// The metadata of the Secret with the cloud-init Secret's name. It may belong to another owner.
    pub cloud_init: Option<Secret>,
    /// The existing PersistentVolumeClaims with the names that the machine needs. They may belong to another owner.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The cluster's VirtualNetwork, if it exists.
    pub network: Option<Arc<VirtualNetwork>>,
    /// The cluster's virtual router number, if capw has chosen one.
    pub virtual_router: Option<u8>,
    /// The namespace's zones from the WCPCluster status. Empty if vSphere doesn't have zones.
    pub zones: Vec<String>,
    /// The network provider for new clusters.
    pub network_provider: NetworkProvider,
    /// True if the WCPMachine or its Cluster is paused.
    pub paused: bool,
    /// A random UUID, for a machine that doesn't have a UUID yet.
    pub drawn: Uuid,
}

/// A node's bootstrap data. It contains the cluster's keys and must never be printed.
pub enum BootstrapSource {
    /// The data isn't available yet, or isn't needed anymore.
    NotRead,
    /// The cloud-init Secret already exists.
    Kept,
    /// The Machine names a Secret that doesn't exist.
    Missing(String),
    /// The bootstrap Secret from Cluster API.
    Read(Box<Secret>),
}

/// Reads the facts for the plan. Reads the cloud-init Secret and the claims only until the VM is created, and again for deletion.
pub async fn facts(wcp_machine: &WCPMachine, ctx: &Context) -> Result<Facts, Error> {
    let machine = upstream::owner(wcp_machine, "Machine")
        .and_then(|name| beside(&ctx.caches.machines, wcp_machine, name))
        .filter(|machine| upstream::is_named_by_machine(wcp_machine, machine));
    let cluster_name = machine
        .as_deref()
        .map(|machine| machine.spec.cluster_name.clone())
        .or_else(|| wcp_machine.labels().get(names::label::CLUSTER_NAME).cloned());
    let cluster = cluster_name.and_then(|name| beside(&ctx.caches.clusters, wcp_machine, &name));
    // With an invalid naming template, the VirtualMachine was never created. `plan` reports the error.
    let name = upstream::owner(wcp_machine, "Machine").and_then(|machine| vm_name(wcp_machine, machine).ok());
    let vm = match name {
        Some(name) => virtual_machine(wcp_machine, &name, ctx).await?,
        None => None,
    };
    let paused = upstream::is_paused(wcp_machine, cluster.as_deref());
    let network = cluster.as_deref().and_then(|cluster| {
        beside(&ctx.caches.networks, wcp_machine, &names::virtual_network(&cluster.name_any()))
    });
    let wcp_cluster = cluster.as_deref().and_then(|cluster| {
        let reference = cluster.spec.infrastructure_ref.as_ref()?;
        beside(&ctx.caches.wcp_clusters, wcp_machine, &reference.name)
    });
    let zones = wcp_cluster.iter().flat_map(|of| of.status.iter()).flat_map(|status| &status.failure_domains);
    let mut facts = Facts {
        machine,
        cluster,
        vm,
        bootstrap: BootstrapSource::NotRead,
        cloud_init: None,
        claims: Vec::new(),
        paused,
        network,
        virtual_router: wcp_cluster.as_deref().and_then(virtual_router),
        zones: zones.map(|zone| zone.name.clone()).collect(),
        network_provider: ctx.network,
        drawn: Uuid::new_v4(),
    };
    let boots = wants_bootstrap(wcp_machine, &facts);
    if boots || is_last_step(wcp_machine, &facts) {
        facts.cloud_init = cloud_init(wcp_machine, ctx).await?;
        facts.claims = claims(wcp_machine, ctx).await?;
    }
    if boots {
        facts.bootstrap = bootstrap(wcp_machine, &facts, ctx).await?;
    }
    Ok(facts)
}

/// Returns the VirtualMachine with this name from the cache.
///
/// During deletion, a VirtualMachine that isn't in the cache is also read from the API server. The cache may lack a
/// VirtualMachine whose creation response was lost, and removing the finalizer would then orphan that VirtualMachine.
async fn virtual_machine(
    wcp_machine: &WCPMachine,
    name: &str,
    ctx: &Context,
) -> Result<Option<Arc<VirtualMachine>>, Error> {
    let namespace = wcp_machine.meta().namespace.as_deref();
    let cached = ctx.caches.vms.current(namespace, name)?;
    if cached.is_some() || wcp_machine.meta().deletion_timestamp.is_none() {
        return Ok(cached);
    }
    Ok(read(wcp_machine, name, ctx).await?.map(Arc::new))
}

/// Returns true while the cloud-init Secret is needed: the cluster infrastructure is ready, the VM isn't created yet, and the
/// WCPMachine is neither paused nor being deleted.
fn wants_bootstrap(wcp_machine: &WCPMachine, facts: &Facts) -> bool {
    let made = facts.vm.as_deref().is_some_and(is_made);
    let cluster_ready = facts.cluster.as_deref().is_some_and(upstream::infrastructure_provisioned);
    !facts.paused && wcp_machine.meta().deletion_timestamp.is_none() && !made && cluster_ready
}

/// Returns true if the WCPMachine is being deleted, isn't paused, and its VirtualMachine is gone or belongs to another owner.
/// Its Secret and claims are deleted next.
fn is_last_step(wcp_machine: &WCPMachine, facts: &Facts) -> bool {
    let gone = whose(wcp_machine, facts.vm.as_deref()) != NameAvailability::Free || facts.vm.is_none();
    !facts.paused && wcp_machine.meta().deletion_timestamp.is_some() && gone
}

/// Returns true if the VM was created in vCenter.
pub fn is_made(vm: &VirtualMachine) -> bool {
    vm.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some(vm_phase::CREATED))
}

async fn bootstrap(wcp_machine: &WCPMachine, facts: &Facts, ctx: &Context) -> Result<BootstrapSource, Error> {
    let name = facts.machine.as_deref().and_then(|machine| machine.spec.bootstrap.data_secret_name.clone());
    let Some(name) = name else { return Ok(BootstrapSource::NotRead) };
    if facts.cloud_init.as_ref().is_some_and(|secret| is_controlled(wcp_machine, secret)) {
        return Ok(BootstrapSource::Kept);
    }
    Ok(read(wcp_machine, &name, ctx)
        .await?
        .map_or(BootstrapSource::Missing(name), |found| BootstrapSource::Read(Box::new(found))))
}

/// Reads an object in the WCPMachine's namespace from the API server.
async fn read<K: Watchable>(wcp_machine: &WCPMachine, name: &str, ctx: &Context) -> Result<Option<K>, Error> {
    let found = ctx.api.get(wcp_machine.meta().namespace.as_deref(), name).await;
    found.map_err(|source| Error::Api { what: format!("reading {} {name}", K::kind(&())), source })
}

/// Reads the cloud-init Secret, and keeps only its metadata.
async fn cloud_init(wcp_machine: &WCPMachine, ctx: &Context) -> Result<Option<Secret>, Error> {
    let found = read(wcp_machine, &names::cloud_init_secret(&wcp_machine.name_any()), ctx).await?;
    Ok(found.map(|secret: Secret| Secret { metadata: secret.metadata, ..Secret::default() }))
}

async fn claims(wcp_machine: &WCPMachine, ctx: &Context) -> Result<Vec<PersistentVolumeClaim>, Error> {
    let Some(machine) = upstream::owner(wcp_machine, "Machine") else { return Ok(Vec::new()) };
    let mut claims = Vec::new();
    for volume in wcp_machine.spec.volumes.iter().filter(|volume| is_claimed(volume)) {
        claims.extend(read::<PersistentVolumeClaim>(wcp_machine, &claim_name(machine, volume), ctx).await?);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use api::capw::VirtualMachineNaming;
    use api::vmop::VirtualMachineSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kit::apply::build_controller_reference;
    use kit::watch::Cache;

    use crate::caches::Caches;
    use crate::fixtures::{client, machine, no_caches, recording_client, wcp_machine};

    use super::*;

    /// Returns true if `facts` finds a VirtualMachine that isn't in the cache. `deleted` says whether the WCPMachine is being
    /// deleted, and `there` whether the VirtualMachine exists on the API server.
    async fn is_found(deleted: bool, there: bool) -> bool {
        let mut vm = VirtualMachine::new("test-cluster-control-plane-jwsx7", VirtualMachineSpec::default());
        vm.metadata.owner_references = Some(vec![build_controller_reference(&wcp_machine())]);
        let ctx = Context::detached(no_caches(), client(there.then(|| serde_json::to_value(vm).unwrap())));
        let mut wcp_machine = wcp_machine();
        wcp_machine.metadata.deletion_timestamp = deleted.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        facts(&wcp_machine, &ctx).await.unwrap().vm.is_some()
    }

    #[tokio::test]
    async fn a_machine_that_names_another_wcpmachine_is_not_the_owner() {
        let mut others = machine(true);
        others.spec.infrastructure_ref.name = "another".into();
        for (machine, expected) in [(machine(true), true), (others, false)] {
            let caches = Caches { machines: Cache::filled([machine]), ..no_caches() };
            let ctx = Context::detached(caches, client(None));
            assert_eq!(facts(&wcp_machine(), &ctx).await.unwrap().machine.is_some(), expected);
        }
    }

    #[tokio::test]
    async fn a_virtual_machine_is_looked_up_by_the_name_that_the_template_makes() {
        let naming = |template: &str| Some(VirtualMachineNaming { template: template.to_owned() });
        let name = "test-cluster-control-plane-jwsx7";
        for (naming, at) in [
            (None, Some(name)),
            (naming("vm-{{ trunc -5 .machine.name }}"), Some("vm-jwsx7")),
            (naming("{{ .machine.nam }}"), None),
        ] {
            let sent = Arc::<Mutex<Vec<String>>>::default();
            let ctx = Context::detached(no_caches(), recording_client(&sent));
            let mut wcp_machine = wcp_machine();
            wcp_machine.spec.naming = naming;
            wcp_machine.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            facts(&wcp_machine, &ctx).await.unwrap();
            let sent = sent.lock().unwrap();
            let asked = sent.iter().find_map(|line| line.split("/virtualmachines/").nth(1));
            assert_eq!(asked.and_then(|path| path.split([' ', '?']).next()), at);
        }
    }

    #[tokio::test]
    async fn a_virtual_machine_that_the_cache_has_not_seen_holds_up_the_end() {
        assert!(is_found(true, true).await);
        assert!(!is_found(true, false).await);
        assert!(!is_found(false, true).await, "while it lives, the cache will do");
    }
}
