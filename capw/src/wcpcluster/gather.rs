//! Every read of a WCPCluster's reconcile.

use std::sync::Arc;

use api::capi::{Cluster, IpAddress, IpAddressClaim};
use api::capw::{FailureDomain, ProviderServiceAccount, WCPCluster, WCPMachine};
use api::names::{self, label};
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachine, VirtualMachineService, VirtualMachineSetResourcePolicy};
use kit::controller::controller_of;
use kit::events::named;
use kit::index::key;
use kube::{Resource, ResourceExt};

use super::address_pool::{self, PoolState};
use super::context::Context;
use super::failure_domains::failure_domains;
use crate::error::Error;
use crate::network::NetworkFlags;
use crate::upstream::{self, beside};

/// What is known when a plan is made.
pub struct Facts {
    /// The Cluster that owns the WCPCluster.
    pub cluster: Option<Arc<Cluster>>,
    /// Name of the Cluster, after which everything of ours is named.
    pub name: String,
    /// Where the machines are to lie.
    pub policy: Option<Arc<VirtualMachineSetResourcePolicy>>,
    /// The machines' network.
    pub network: Option<Arc<VirtualNetwork>>,
    /// What is in front of the API servers.
    pub service: Option<Arc<VirtualMachineService>>,
    /// The claim of the address at which the API servers answer.
    pub address_claim: Option<Arc<IpAddressClaim>>,
    /// What an IPAM provider answered to it.
    pub address: Option<Arc<IpAddress>>,
    /// How the pool is that the claim names.
    pub pool: PoolState,
    /// What new clusters are connected to.
    pub flags: NetworkFlags,
    /// The WCPMachines of the cluster and their virtual machines, as `Kind namespace/name`.
    pub machines: Vec<String>,
    /// The accounts of programs in the guest.
    pub accounts: Vec<Arc<ProviderServiceAccount>>,
    /// Where machines can be placed.
    pub failure_domains: Vec<FailureDomain>,
    /// Nobody may act on the WCPCluster.
    pub paused: bool,
}

/// Reads what the plan needs, all of it from caches.
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
    // A label is anybody's word: a machine of ours has a WCPMachine that controls it.
    let mut vms = ctx.vms.objects(&of_cluster);
    vms.retain(|vm| controller_of::<WCPMachine, VirtualMachine>(vm).is_some());
    let machines = ctx.machines.objects(&of_cluster);
    let mut machines: Vec<_> =
        machines.iter().map(|it| named(&**it)).chain(vms.iter().map(|it| named(&**it))).collect();
    machines.sort();
    let address_claim = ctx.caches.address_claims.current(namespace, &names::control_plane_address(&name))?;
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

#[cfg(test)]
pub(super) mod tests {
    use api::vmop::VirtualMachineSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kit::Runtime;
    use kit::apply::{Api, controlled_by};
    use kit::events::Events;
    use kit::watch::Cache;

    use super::*;
    use crate::fixtures::{client, no_caches, nsx, wcp_cluster, wcp_machine};
    use crate::virtual_router::Draws;

    /// The context of a reconcile whose caches contain only these virtual machines.
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
            api: Api::new(started, "test"),
            events: Events::new(started, "test"),
            caches: Arc::new(clusters),
        }
    }

    #[tokio::test]
    async fn a_vm_with_only_the_label_of_a_cluster_does_not_block_deletion() {
        let vm = |name: &str, owned: bool| {
            let mut vm = VirtualMachine::new(name, VirtualMachineSpec::default());
            vm.metadata.namespace = Some("ben-test".to_owned());
            vm.metadata.labels =
                Some([(label::CAPW_CLUSTER_NAME.to_owned(), "test-cluster".to_owned())].into());
            vm.metadata.owner_references = owned.then(|| vec![controlled_by(&wcp_machine())]);
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
