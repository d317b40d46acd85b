//! Plans a WCPCluster's objects, without I/O: a resource policy, a network, and a load balancer or an address claim.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::capi::{Cluster, IPAM_GROUP, IpAddress, IpAddressClaim, IpAddressClaimPoolRef, IpAddressClaimSpec};
use api::capw::{ApiEndpoint, WCPCluster};
use api::names::{self, annotation, finalizer, label};
use api::net::{VirtualNetwork, VirtualNetworkSpec};
use api::vmop::{
    ClusterModuleSpec, ControlPlaneEndpointStatus, FolderSpec, ResourcePoolSpec, ResourceSpec,
    VirtualMachineService, VirtualMachineServicePort, VirtualMachineServiceSpec,
    VirtualMachineSetResourcePolicy, VirtualMachineSetResourcePolicySpec,
};
use kit::events::describe_object;
use kube::ResourceExt;

use super::gather::Facts;
use super::occupied::OccupiedAddress;
use crate::error::{Error, InvalidInput, Waiting};
use crate::network::{EndpointProvider, NetworkProvider, PoolReference};
use crate::upstream::{self, NameAvailability, child, claim};

/// The remedy if another owner's object has a name that the cluster needs.
const NAME_ADVICE: &str = "Rename or delete it, or give the cluster another name";

/// The objects that a cluster's machines share.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The folder, resource pool and cluster modules in vCenter.
    pub policy: VirtualMachineSetResourcePolicy,
    /// The cluster's own network, if it has one.
    pub network: Option<VirtualNetwork>,
    /// The load balancer or virtual IP for the API servers.
    pub front: Front,
}

/// The load balancer or virtual IP for a cluster's API servers.
#[derive(Clone, Debug, PartialEq)]
pub enum Front {
    LoadBalancer(Box<VirtualMachineService>),
    /// A pool address that the control plane nodes announce.
    VirtualIp(Box<IpAddressClaim>),
    /// A pool address that another machine uses.
    InUse(OccupiedAddress),
    /// A pool address that may be in use: the VM operator hasn't reported yet whether a VM in vCenter has the address.
    Unchecked(IpAddr),
    /// The user set the endpoint.
    Given,
    /// The endpoint isn't set, and a pool isn't configured.
    Missing,
}

/// The reasons why a plan can't be computed.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanStopReason {
    Invalid(InvalidInput),
    Waiting(Waiting),
}

impl From<PlanStopReason> for Error {
    fn from(stop: PlanStopReason) -> Self {
        match stop {
            PlanStopReason::Invalid(invalid) => invalid.into(),
            PlanStopReason::Waiting(waiting) => waiting.into(),
        }
    }
}

/// Plans a WCPCluster's objects from the facts.
pub fn plan(cluster: &WCPCluster, facts: &Facts) -> Result<Plan, PlanStopReason> {
    let Some(owner) = facts.cluster.as_deref() else {
        return Err(PlanStopReason::Waiting(Waiting::OwnerCluster));
    };
    let name = &facts.name;
    // `clusterctl move` deletes the machines and the policy before the WCPCluster. If the move stops in between and the Cluster
    // is resumed, a new policy would create a folder, a resource pool and cluster modules in vCenter.
    let was_running =
        upstream::infrastructure_provisioned(owner) && upstream::is_control_plane_initialized(owner);
    if was_running && facts.policy.is_none() && facts.machines.is_empty() {
        return Err(PlanStopReason::Invalid(InvalidInput::MovedAway(name.clone())));
    }
    ours(cluster, facts.policy.as_deref(), name)?;
    Ok(Plan {
        policy: policy(cluster, name, unsettled_address(cluster, facts)),
        network: network(cluster, facts)?,
        front: front(cluster, facts)?,
    })
}

/// Returns the endpoint from the WCPCluster spec, or otherwise from the Cluster spec.
pub fn given_endpoint(wcp_cluster: &WCPCluster, cluster: Option<&Cluster>) -> Option<ApiEndpoint> {
    let given = wcp_cluster.spec.control_plane_endpoint.clone().filter(|endpoint| !endpoint.host.is_empty());
    given.or_else(|| {
        // Cluster API keeps an endpoint that the user set, and uses it in every kubeconfig.
        let given = cluster?.spec.control_plane_endpoint.as_ref()?;
        let host = given.host.clone().filter(|host| !host.is_empty())?;
        let port = given.port.filter(|port| *port > 0).unwrap_or(names::API_SERVER_PORT);
        Some(ApiEndpoint { host, port })
    })
}

/// Returns the given endpoint, or otherwise `host` with the API server port.
pub fn endpoint(
    wcp_cluster: &WCPCluster,
    cluster: Option<&Cluster>,
    host: Option<&str>,
) -> Option<ApiEndpoint> {
    let found = || Some(ApiEndpoint { host: host?.to_owned(), port: names::API_SERVER_PORT });
    given_endpoint(wcp_cluster, cluster).or_else(found)
}

/// Returns the load balancer's address, once the service's status contains an address.
pub fn load_balancer_address(service: &VirtualMachineService) -> Option<&str> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.first()?;
    ingress.ip.as_deref().or(ingress.hostname.as_deref()).filter(|host| !host.is_empty())
}

/// Returns the address that an IPAM provider assigned, or `None` if it isn't a valid unicast address.
pub fn claimed_address(address: &IpAddress) -> Option<&str> {
    let text = address.spec.address.as_str();
    let parsed: IpAddr = text.parse().ok()?;
    (!parsed.is_unspecified() && !parsed.is_multicast()).then_some(text)
}

/// Returns the claimed address, if the cluster can still get another one. Such a cluster doesn't have an endpoint or machines,
/// its control plane isn't initialized, and it is neither paused nor being deleted.
///
/// Returns `None` for any other cluster: once an endpoint is known, it never changes.
pub fn unsettled_address(cluster: &WCPCluster, facts: &Facts) -> Option<IpAddr> {
    let address = claimed_address(facts.address.as_deref()?)?.parse().ok();
    let owner = facts.cluster.as_deref();
    let is_new = !facts.paused
        && cluster.metadata.deletion_timestamp.is_none()
        && facts.machines.is_empty()
        && given_endpoint(cluster, owner).is_none()
        && owner.is_some_and(|owner| !upstream::is_control_plane_initialized(owner));
    address.filter(|_| is_new)
}

/// Returns the VM operator's lookup result for the [`unsettled_address`]: the VM that has this address, and the virtual router
/// numbers in use. Returns `None` until the VM operator has looked up the address.
pub fn endpoint_use<'a>(cluster: &WCPCluster, facts: &'a Facts) -> Option<&'a ControlPlaneEndpointStatus> {
    let asked = unsettled_address(cluster, facts)?.to_string();
    let answer = facts.policy.as_deref()?.status.as_ref()?.control_plane_endpoint.as_ref()?;
    (answer.host == asked).then_some(answer)
}

/// Returns whether a child belongs to the WCPCluster. A child without a controller belongs to it if the child's cluster label
/// is `name`.
pub fn whose<C>(cluster: &WCPCluster, child: Option<&C>, name: &str) -> NameAvailability
where
    C: kube::Resource<DynamicType = ()>,
{
    claim(cluster, child, |child| child.labels().get(label::CLUSTER_NAME).is_some_and(|of| of == name))
}

fn ours<C>(cluster: &WCPCluster, child: Option<&C>, name: &str) -> Result<(), PlanStopReason>
where
    C: kube::Resource<DynamicType = ()>,
{
    match (whose(cluster, child, name), child) {
        (NameAvailability::Taken, Some(child)) => Err(PlanStopReason::Invalid(InvalidInput::NameTaken {
            object: describe_object(child),
            advice: NAME_ADVICE,
        })),
        (NameAvailability::Former, Some(child)) => Err(PlanStopReason::Waiting(Waiting::Former {
            object: describe_object(child),
            owner: "WCPCluster",
        })),
        _ => Ok(()),
    }
}

/// Builds the resource policy. If `asked` is set, an annotation makes the VM operator look up which VM already has this address.
fn policy(cluster: &WCPCluster, name: &str, asked: Option<IpAddr>) -> VirtualMachineSetResourcePolicy {
    // A policy is immutable, so set all fields that the original sets. 0 means no limit or reservation.
    let none = || Some(ResourceSpec { cpu: Some("0".into()), memory: Some("0".into()) });
    let groups = [names::CONTROL_PLANE_GROUP.to_owned(), names::worker_group(name)];
    let mut metadata = child(cluster, names::resource_policy(name), name);
    metadata.annotations =
        asked.map(|asked| [(annotation::CONTROL_PLANE_ENDPOINT.to_owned(), asked.to_string())].into());
    VirtualMachineSetResourcePolicy {
        metadata,
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

/// Returns the cluster's own network, if it needs one. New clusters need their own network with NSX, and existing clusters keep
/// theirs.
fn network(cluster: &WCPCluster, facts: &Facts) -> Result<Option<VirtualNetwork>, PlanStopReason> {
    let (name, there) = (&facts.name, facts.network.as_deref());
    let nsx = facts.flags.network_provider == NetworkProvider::Nsx;
    if !nsx && (there.is_none() || whose(cluster, there, name) == NameAvailability::Taken) {
        return Ok(None);
    }
    // Existing machines stay on their port group when NSX is enabled for new clusters. The endpoint alone doesn't identify an
    // existing cluster: the user may have set the endpoint of a new one, which doesn't have capw's finalizer yet.
    let began = cluster.finalizers().iter().any(|there| there == finalizer::WCP_CLUSTER)
        && cluster.spec.control_plane_endpoint.is_some();
    if there.is_none() && facts.service.is_none() && began {
        return Ok(None);
    }
    ours(cluster, there, name)?;
    Ok(Some(VirtualNetwork {
        metadata: child(cluster, names::virtual_network(name), name),
        spec: VirtualNetworkSpec::default(),
        status: None,
    }))
}

/// Returns the cluster's existing load balancer or claim, or otherwise the one that the flags select for new clusters.
fn front(cluster: &WCPCluster, facts: &Facts) -> Result<Front, PlanStopReason> {
    let (name, there) = (&facts.name, facts.service.as_deref());
    let balanced = facts.flags.endpoint_provider() == EndpointProvider::LoadBalancer;
    let claimed = facts.address_claim.as_deref();
    if (balanced && claimed.is_none())
        || (there.is_some() && whose(cluster, there, name) != NameAvailability::Taken)
    {
        ours(cluster, there, name)?;
        let endpoint = given_endpoint(cluster, facts.cluster.as_deref());
        return Ok(Front::LoadBalancer(Box::new(service(cluster, name, endpoint.as_ref()))));
    }
    if claimed.is_none() && given_endpoint(cluster, facts.cluster.as_deref()).is_some() {
        return Ok(Front::Given);
    }
    ours(cluster, claimed, name)?;
    let pool = match (claimed, &facts.flags.endpoint_pool) {
        (Some(claim), _) => claim.spec.pool_ref.clone(),
        (None, Some(PoolReference { kind, name })) => {
            IpAddressClaimPoolRef { api_group: IPAM_GROUP.to_owned(), kind: kind.clone(), name: name.clone() }
        }
        (None, None) => return Ok(Front::Missing),
    };
    let claim = match (claimed, &facts.occupied, &facts.next_claim) {
        (Some(_), Some(occupied), Some(next)) if occupied.is_lasting => next.clone(),
        (Some(_), Some(occupied), _) => return Ok(Front::InUse(occupied.clone())),
        (Some(claim), None, _) => match unsettled_address(cluster, facts) {
            Some(address) if endpoint_use(cluster, facts).is_none() => return Ok(Front::Unchecked(address)),
            _ => claim.name_any(),
        },
        (None, ..) => names::control_plane_address(name),
    };
    Ok(Front::VirtualIp(Box::new(address_claim(cluster, name, claim, pool))))
}

fn address_claim(
    cluster: &WCPCluster,
    name: &str,
    claim: String,
    pool_ref: IpAddressClaimPoolRef,
) -> IpAddressClaim {
    IpAddressClaim {
        metadata: child(cluster, claim, name),
        spec: IpAddressClaimSpec { cluster_name: Some(name.to_owned()), pool_ref },
        status: None,
    }
}

/// Builds the load balancer. If the endpoint is known, the load balancer requests the endpoint's address, because kubeconfigs and
/// nodes contain it. The address therefore stays the same when the cluster is moved to another management cluster.
fn service(cluster: &WCPCluster, name: &str, endpoint: Option<&ApiEndpoint>) -> VirtualMachineService {
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
            load_balancer_ip: endpoint
                .map(|at| at.host.clone())
                .filter(|host| host.parse::<IpAddr>().is_ok()),
            ..VirtualMachineServiceSpec::default()
        },
        status: None,
    }
}

#[cfg(test)]
mod tests;
