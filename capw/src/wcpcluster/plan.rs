//! What a WCPCluster needs: a resource policy, a network, a load balancer, and to know its endpoint. Pure.

use std::collections::BTreeMap;

use api::capi::Cluster;
use api::capw::{ApiEndpoint, WCPCluster};
use api::names::{self, annotation, label};
use api::net::{VirtualNetwork, VirtualNetworkSpec};
use api::vmop::{
    ClusterModuleSpec, FolderSpec, ResourcePoolSpec, ResourceSpec, VirtualMachineService,
    VirtualMachineServicePort, VirtualMachineServiceSpec, VirtualMachineSetResourcePolicy,
    VirtualMachineSetResourcePolicySpec,
};
use kit::apply::controlled_by;
use kit::events::named;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::gather::Facts;
use crate::error::{Error, InvalidInput, Waiting};
use crate::upstream::{Claim, claim};

/// What to do about an object whose name the cluster needs.
const NAME_ADVICE: &str = "rename or delete it, or give the cluster another name";

/// The objects that a cluster's machines share.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the machines lie in vCenter.
    pub policy: VirtualMachineSetResourcePolicy,
    /// The machines' network.
    pub network: VirtualNetwork,
    /// What is in front of the API servers.
    pub service: VirtualMachineService,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The user must act.
    Invalid(InvalidInput),
    /// Something else must happen first.
    Waiting(Waiting),
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Invalid(invalid) => invalid.into(),
            Stop::Waiting(waiting) => waiting.into(),
        }
    }
}

/// What the cluster needs, given the facts.
pub fn plan(cluster: &WCPCluster, facts: &Facts) -> Result<Plan, Stop> {
    if facts.cluster.is_none() {
        return Err(Stop::Waiting(Waiting::OwnerCluster));
    }
    let name = &facts.name;
    ours(cluster, facts.policy.as_deref(), name)?;
    ours(cluster, facts.network.as_deref(), name)?;
    ours(cluster, facts.service.as_deref(), name)?;
    Ok(Plan {
        policy: policy(cluster, name),
        network: network(cluster, name),
        service: service(cluster, name),
    })
}

/// The endpoint, as soon as it is known: the one in the spec, else the Cluster's, else the load balancer's.
pub fn endpoint(
    wcp_cluster: &WCPCluster,
    cluster: Option<&Cluster>,
    service: Option<&VirtualMachineService>,
) -> Option<ApiEndpoint> {
    let given = wcp_cluster.spec.control_plane_endpoint.clone().filter(|endpoint| !endpoint.host.is_empty());
    let port = names::API_SERVER_PORT;
    given
        .or_else(|| {
            // The user's word: Cluster API keeps it, whatever we find out, and builds every kubeconfig on it.
            let given = cluster?.spec.control_plane_endpoint.as_ref()?;
            let host = given.host.clone().filter(|host| !host.is_empty())?;
            Some(ApiEndpoint { host, port: given.port.filter(|port| *port > 0).unwrap_or(port) })
        })
        .or_else(|| Some(ApiEndpoint { host: address(service?)?.to_owned(), port }))
}

/// The load balancer's address, as soon as it has one.
pub fn address(service: &VirtualMachineService) -> Option<&str> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.first()?;
    ingress.ip.as_deref().or(ingress.hostname.as_deref()).filter(|host| !host.is_empty())
}

/// Whose a child is. One without an owner is ours if it says that it belongs to our cluster.
pub fn whose<C>(cluster: &WCPCluster, child: Option<&C>, name: &str) -> Claim
where
    C: kube::Resource<DynamicType = ()>,
{
    claim(cluster, child, |child| child.labels().get(label::CLUSTER_NAME).is_some_and(|of| of == name))
}

fn ours<C>(cluster: &WCPCluster, child: Option<&C>, name: &str) -> Result<(), Stop>
where
    C: kube::Resource<DynamicType = ()>,
{
    match (whose(cluster, child, name), child) {
        (Claim::Taken, Some(child)) => {
            Err(Stop::Invalid(InvalidInput::NameTaken { object: named(child), advice: NAME_ADVICE }))
        }
        (Claim::Former, Some(child)) => {
            Err(Stop::Waiting(Waiting::Former { object: named(child), owner: "WCPCluster" }))
        }
        _ => Ok(()),
    }
}

/// Metadata of what belongs to the cluster.
fn child(cluster: &WCPCluster, name: String, of: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: cluster.namespace(),
        labels: Some(BTreeMap::from([(label::CLUSTER_NAME.to_owned(), of.to_owned())])),
        owner_references: Some(vec![controlled_by(cluster)]),
        ..ObjectMeta::default()
    }
}

fn policy(cluster: &WCPCluster, name: &str) -> VirtualMachineSetResourcePolicy {
    // The policy can't be changed once it is made, so it says in full what the original's says: 0 means none.
    let none = || Some(ResourceSpec { cpu: Some("0".into()), memory: Some("0".into()) });
    let groups = [names::CONTROL_PLANE_GROUP.to_owned(), names::worker_group(name)];
    VirtualMachineSetResourcePolicy {
        metadata: child(cluster, names::resource_policy(name), name),
        spec: VirtualMachineSetResourcePolicySpec {
            resource_pool: Some(ResourcePoolSpec {
                name: Some(name.to_owned()),
                reservations: none(),
                limits: none(),
            }),
            folder: Some(FolderSpec { name: Some(name.to_owned()) }),
            cluster_modules: groups.map(|group_name| ClusterModuleSpec { group_name }).into(),
        },
        status: None,
    }
}

fn network(cluster: &WCPCluster, name: &str) -> VirtualNetwork {
    VirtualNetwork {
        metadata: child(cluster, names::virtual_network(name), name),
        spec: VirtualNetworkSpec::default(),
        status: None,
    }
}

fn service(cluster: &WCPCluster, name: &str) -> VirtualMachineService {
    let mut metadata = child(cluster, names::control_plane_service(name), name);
    let network = (annotation::NCP_VIRTUAL_NETWORK.to_owned(), names::virtual_network(name));
    metadata.annotations = Some(BTreeMap::from([network]));
    let selector = [(label::CAPW_CLUSTER_NAME, name), (label::CAPW_CLUSTER_ROLE, names::ROLE_CONTROL_PLANE)];
    VirtualMachineService {
        metadata,
        spec: VirtualMachineServiceSpec {
            type_: "LoadBalancer".to_owned(),
            ports: vec![VirtualMachineServicePort {
                name: names::API_SERVER_PORT_NAME.to_owned(),
                protocol: "TCP".to_owned(),
                port: names::API_SERVER_PORT,
                target_port: names::API_SERVER_PORT,
            }],
            selector: selector.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..VirtualMachineServiceSpec::default()
        },
        status: None,
    }
}

#[cfg(test)]
mod tests;
