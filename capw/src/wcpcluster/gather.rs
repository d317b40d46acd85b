//! All reads of a WCPCluster reconcile, except [`super::look`].

use std::sync::Arc;

use api::capi::{Cluster, IpAddress, IpAddressClaim};
use api::capw::{FailureDomain, ProviderServiceAccount, WCPCluster, WCPMachine};
use api::names::{self, label};
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachine, VirtualMachineService, VirtualMachineSetResourcePolicy};
use kit::controller::controller_of;
use kit::events::describe_object;
use kit::index::key;
use kube::{Resource, ResourceExt};

use super::address_pool::{self, PoolState};
use super::context::Context;
use super::failure_domains::failure_domains;
use super::occupied::{MAX_CLAIMS, OccupiedAddress};
use crate::error::Error;
use crate::network::NetworkFlags;
use crate::upstream::{self, beside, is_controlled};

/// The facts that [`facts`] read for one reconcile.
pub struct Facts {
    /// The Cluster that owns the WCPCluster and references it.
    pub cluster: Option<Arc<Cluster>>,
    /// The Cluster name, from which child names derive.
    pub name: String,
    pub policy: Option<Arc<VirtualMachineSetResourcePolicy>>,
    pub network: Option<Arc<VirtualNetwork>>,
    /// The load balancer for the API servers.
    pub service: Option<Arc<VirtualMachineService>>,
    /// The claim for the control plane address.
    pub address_claim: Option<Arc<IpAddressClaim>>,
    /// Earlier claims whose addresses turned out to be used by other machines. The claims are kept, so that the addresses stay
    /// allocated.
    pub former_claims: Vec<Arc<IpAddressClaim>>,
    /// The name for the next claim, unless the cluster has reached [`MAX_CLAIMS`].
    pub next_claim: Option<String>,
    /// The claimed address, if another machine uses it. Checked only while the cluster can still get another address.
    pub occupied: Option<OccupiedAddress>,
    /// The address that an IPAM provider assigned to the claim.
    pub address: Option<Arc<IpAddress>>,
    /// The state of the claim's pool.
    pub pool: PoolState,
    /// The network settings for new clusters.
    pub flags: NetworkFlags,
    /// The cluster's WCPMachines and their VirtualMachines, as `Kind namespace/name`.
    pub machines: Vec<String>,
    /// The cluster's ProviderServiceAccounts.
    pub accounts: Vec<Arc<ProviderServiceAccount>>,
    /// The zones where machines can be placed.
    pub failure_domains: Vec<FailureDomain>,
    /// True if the WCPCluster or its Cluster is paused.
    pub paused: bool,
}

/// Reads the facts for the plan from the caches. Fails if a cache doesn't contain capw's last write yet.
pub fn facts(wcp_cluster: &WCPCluster, ctx: &Context) -> Result<Facts, Error> {
    let owner = upstream::owner(wcp_cluster, "Cluster").map(str::to_owned);
    let cluster = owner
        .as_deref()
        .and_then(|name| beside(&ctx.caches.clusters, wcp_cluster, name))
        .filter(|cluster| upstream::is_named_by_cluster(wcp_cluster, cluster));
    let name = owner
        .or_else(|| wcp_cluster.labels().get(label::CLUSTER_NAME).cloned())
        .unwrap_or_else(|| wcp_cluster.name_any());
    let namespace = wcp_cluster.meta().namespace.as_deref();
    let of_cluster = key(namespace, &name);
    // Users can set the label too. A WCPMachine controls every VirtualMachine that capw created.
    let mut vms = ctx.vms.objects(&of_cluster);
    vms.retain(|vm| controller_of::<WCPMachine, VirtualMachine>(vm).is_some());
    let machines = ctx.machines.objects(&of_cluster);
    let mut machines: Vec<_> = machines
        .iter()
        .map(|it| describe_object(&**it))
        .chain(vms.iter().map(|it| describe_object(&**it)))
        .collect();
    machines.sort();
    let mut claims = address_claims(wcp_cluster, &name, ctx)?;
    let next_claim = claims.last().map_or(0, |(earlier, _)| earlier + 1);
    let next_claim = (next_claim < MAX_CLAIMS).then(|| names::control_plane_address_after(&name, next_claim));
    let address_claim = claims.pop().map(|(_, claim)| claim);
    let address = address_claim.as_deref().and_then(|claim| {
        let name = &claim.status.as_ref()?.address_ref.as_ref()?.name;
        ctx.caches
            .addresses
            .get(namespace, name)
            .filter(|found| found.spec.claim_ref.name == claim.name_any())
    });
    Ok(Facts {
        paused: upstream::is_paused(wcp_cluster, cluster.as_deref()),
        policy: ctx.caches.policies.current(namespace, &names::resource_policy(&name))?,
        network: ctx.caches.networks.current(namespace, &names::virtual_network(&name))?,
        service: ctx.caches.services.current(namespace, &names::control_plane_service(&name))?,
        pool: address_claim
            .as_deref()
            .map(|claim| address_pool::state(claim, &ctx.caches))
            .unwrap_or_default(),
        address_claim,
        former_claims: claims.into_iter().map(|(_, claim)| claim).collect(),
        next_claim,
        occupied: None,
        address,
        accounts: ctx.accounts.objects(&key(namespace, &wcp_cluster.name_any())),
        flags: ctx.network.clone(),
        cluster,
        name,
        machines,
        failure_domains: failure_domains(
            namespace.unwrap_or_default(),
            &ctx.zones.objects(namespace.unwrap_or_default()),
            &ctx.availability_zones.objects(namespace.unwrap_or_default()),
        ),
    })
}

/// Returns the cluster's control plane address claims with their indexes, in order. The claim with the first name is included
/// even if it belongs to another owner, because every cluster needs this name.
fn address_claims(
    cluster: &WCPCluster,
    name: &str,
    ctx: &Context,
) -> Result<Vec<(usize, Arc<IpAddressClaim>)>, Error> {
    let namespace = cluster.meta().namespace.as_deref();
    let mut claims = Vec::new();
    for earlier in 0..MAX_CLAIMS {
        let claim = names::control_plane_address_after(name, earlier);
        let claim = ctx.caches.address_claims.current(namespace, &claim)?;
        claims.extend(
            claim
                .filter(|claim| earlier == 0 || is_controlled(cluster, &**claim))
                .map(|claim| (earlier, claim)),
        );
    }
    Ok(claims)
}

#[cfg(test)]
pub(super) mod tests {
    use api::vmop::VirtualMachineSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kit::Runtime;
    use kit::apply::{Api, build_controller_reference};
    use kit::events::Events;
    use kit::watch::Cache;

    use super::*;
    use crate::fixtures::{client, no_caches, nsx, wcp_cluster, wcp_machine};
    use crate::virtual_router::Draws;
    use crate::wcpcluster::occupied::Occupied;

    /// Returns a context whose caches contain only these VirtualMachines.
    pub fn context(started: &Runtime, vms: Vec<VirtualMachine>) -> Context {
        let (clusters, vms) = (no_caches(), Cache::filled(vms));
        let in_namespace = |namespace: Option<String>, name: Option<&String>| {
            name.map(|name| key(namespace.as_deref(), name)).into_iter().collect::<Vec<_>>()
        };
        Context {
            machines: clusters.wcp_machines.index(|_| Vec::new()),
            vms: vms.index(move |vm| in_namespace(vm.namespace(), vm.labels().get(label::CAPW_CLUSTER_NAME))),
            accounts: clusters.accounts.index(|_| Vec::new()),
            zones: clusters.zones.cache().index(|_| Vec::new()),
            availability_zones: clusters.availability_zones.cache().index(|_| Vec::new()),
            network: nsx(),
            draws: Draws::default(),
            occupied: Occupied::default(),
            api: Api::new(started, "test"),
            events: Events::new(started, "test"),
            caches: Arc::new(clusters),
        }
    }

    #[tokio::test]
    async fn the_last_claim_of_the_cluster_is_in_use_and_one_of_another_owner_is_none() {
        let started = Runtime::detached(client(None));
        let claim = |earlier: usize, owned: bool| {
            let mut claim = IpAddressClaim::default();
            claim.metadata.namespace = Some("ben-test".to_owned());
            claim.metadata.name = Some(names::control_plane_address_after("test-cluster", earlier));
            claim.metadata.owner_references = owned.then(|| vec![build_controller_reference(&wcp_cluster())]);
            claim
        };
        let found = |claims: Vec<IpAddressClaim>| {
            let mut ctx = context(&started, Vec::new());
            Arc::get_mut(&mut ctx.caches).unwrap().address_claims = Cache::filled(claims);
            let facts = facts(&wcp_cluster(), &ctx).expect("facts");
            let current = facts.address_claim.map(|claim| claim.name_any());
            (current, facts.former_claims.len(), facts.next_claim)
        };
        let named = |earlier| Some(names::control_plane_address_after("test-cluster", earlier));
        assert_eq!(found(Vec::new()), (None, 0, named(0)));
        assert_eq!(found(vec![claim(0, true)]), (named(0), 0, named(1)));
        let more = vec![claim(0, true), claim(1, true), claim(2, false)];
        assert_eq!(found(more), (named(1), 1, named(2)));
        assert_eq!(found(vec![claim(0, false)]).0, named(0), "a taken name is reported");
        let all = (0..MAX_CLAIMS).map(|earlier| claim(earlier, true)).collect();
        assert_eq!(found(all), (named(MAX_CLAIMS - 1), MAX_CLAIMS - 1, None));
    }

    #[tokio::test]
    async fn a_vm_with_only_the_label_of_a_cluster_does_not_block_deletion() {
        let vm = |name: &str, owned: bool| {
            let mut vm = VirtualMachine::new(name, VirtualMachineSpec::default());
            vm.metadata.namespace = Some("ben-test".to_owned());
            vm.metadata.labels =
                Some([(label::CAPW_CLUSTER_NAME.to_owned(), "test-cluster".to_owned())].into());
            vm.metadata.owner_references = owned.then(|| vec![build_controller_reference(&wcp_machine())]);
            vm
        };
        let started = Runtime::detached(client(None));
        let ctx = context(&started, vec![vm("plain", false), vm("node", true)]);
        let mut cluster = wcp_cluster();
        cluster.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let machines = facts(&cluster, &ctx).expect("facts").machines;
        assert_eq!(machines, ["VirtualMachine ben-test/node"]);
    }
}
