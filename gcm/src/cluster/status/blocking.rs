//! Finds the first cause in a cluster: the problem that the other objects wait for.

use std::sync::Arc;

use api::capw::{WCPCluster, vm_status};
use api::conditions::cause::{self, Cause};
use api::conditions::severity::Severity;
use api::conditions::{FALSE, READY, TRUE, capi, metav1, tkc, vcenter, wcp_machine};
use api::gcm::parts::node_status;
use api::gcm::remedy;
use api::names::finalizer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::events::named;
use kit::watch::Watchable;
use kube::ResourceExt;

use crate::addons::bundle::AddonType;
use crate::cluster::facts::Facts;
use crate::cluster::node_groups::nodes::{Node, conditions};

/// Returns the cause in a capw object's `Ready` condition, with TanzuKubernetesCluster field names in its message. Returns
/// `None` if the object is ready.
fn of_ready(object: String, conditions: &[Condition]) -> Option<Cause> {
    let ready = metav1::find(conditions, READY).filter(|condition| condition.status != TRUE)?;
    let cause = Cause::of(object, ready);
    Some(Cause { message: remedy::with_fields(&cause.message), ..cause })
}

/// Returns the cause that keeps the infrastructure from being ready.
pub fn of_infrastructure(facts: &Facts) -> Option<Cause> {
    let wcp = facts.wcp_cluster.as_ref()?;
    let conditions = wcp.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    of_ready(format!("WCPCluster {}", wcp.name_any()), conditions)
}

/// Returns the cause that keeps a Machine from being ready or deleted. Returns `None` for a ready Machine.
pub fn of_machine(facts: &Facts, node: &Node<'_>) -> Option<Cause> {
    let machine = conditions(node.machine);
    let object = format!("Machine {}", node.name());
    let below = || {
        let wcp = node.wcp?;
        let conditions = wcp.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        of_ready(format!("{object}: WCPMachine {}", wcp.name_any()), conditions)
    };
    if node.is_deleting() {
        let is_going = node.wcp.is_some_and(|wcp| wcp.metadata.deletion_timestamp.is_some());
        let stuck = below().filter(|cause| is_going && cause.is_failing());
        let deleting = metav1::find(machine, capi::DELETING);
        return stuck.or_else(|| deleting.map(|condition| Cause::of_cluster_api(object, condition)));
    }
    if metav1::holds(machine, READY) {
        return None;
    }
    if let Some(mut cause) = below() {
        if node.vm_status() == vm_status::ERROR {
            cause.severity = Severity::Error;
        }
        if cause.reason != wcp_machine::WAITING_FOR_BOOTSTRAP_DATA {
            return Some(cause);
        }
        let bootstrap =
            metav1::find(machine, capi::BOOTSTRAP_CONFIG_READY).filter(|condition| condition.status != TRUE);
        return Some(bootstrap.map_or(cause, |condition| Cause::of_cluster_api(object, condition)));
    }
    if node.node().is_none() {
        return Some(of_unjoined(facts, node, object));
    }
    let health = [capi::NODE_READY, capi::NODE_HEALTHY, READY]
        .iter()
        .find_map(|type_| metav1::find(machine, type_).filter(|c| c.status != TRUE));
    health
        .map(|condition| of_outage(node, &object).unwrap_or_else(|| Cause::of_cluster_api(object, condition)))
}

/// Returns the cause if a node isn't ready because vCenter doesn't reach its VM. The WCPMachine stays ready during such an
/// outage, and its message contains the reason.
fn of_outage(node: &Node<'_>, object: &str) -> Option<Cause> {
    let wcp = node.wcp?;
    let ready = metav1::find(&wcp.status.as_ref()?.conditions, READY)?;
    (ready.status == TRUE && !ready.message.is_empty()).then(|| Cause {
        object: format!("{object}: WCPMachine {}", wcp.name_any()),
        reason: vcenter::UNREACHABLE.to_owned(),
        message: ready.message.clone(),
        severity: Severity::Warning,
    })
}

/// Returns the API server's URL, once the endpoint is known.
fn endpoint(facts: &Facts) -> Option<String> {
    let endpoint = facts.cluster.as_ref()?.spec.control_plane_endpoint.as_ref()?;
    Some(kit::guest::server(
        endpoint.host.as_deref().filter(|host| !host.is_empty())?,
        endpoint.port?.try_into().ok()?,
    ))
}

/// Returns the cause that keeps a Machine from having a Node: its VM runs but hasn't joined, or isn't provisioned yet.
fn of_unjoined(facts: &Facts, node: &Node<'_>, object: String) -> Cause {
    if let Some(address) = node.wcp.and_then(|wcp| wcp.status.as_ref()?.vm_ip.as_deref()) {
        // Once the endpoint has answered, it isn't the cause.
        let endpoint = endpoint(facts).filter(|_| !facts.is_initialized());
        return Cause::not_joined(object, Some(address), endpoint.as_deref());
    }
    match metav1::find(conditions(node.machine), capi::INFRASTRUCTURE_READY) {
        Some(condition) => Cause::of_cluster_api(object, condition),
        None => Cause {
            object,
            reason: tkc::PENDING.to_owned(),
            message: String::new(),
            severity: Severity::Waiting,
        },
    }
}

/// Returns the most severe cause among these machines. Among equally severe causes, returns the first.
pub fn of_machines<'n, 'a: 'n>(
    facts: &Facts,
    nodes: impl IntoIterator<Item = &'n Node<'a>>,
) -> Option<Cause> {
    cause::gravest(nodes.into_iter().filter_map(|node| of_machine(facts, node)), |cause| cause.severity)
}

/// Returns the most severe cause among these machines. If a node joined but isn't ready and the container network can't be
/// applied, returns the network's cause instead, because nodes don't become ready without a network.
pub fn of_nodes<'n, 'a: 'n>(facts: &Facts, nodes: impl IntoIterator<Item = &'n Node<'a>>) -> Option<Cause> {
    let nodes: Vec<_> = nodes.into_iter().collect();
    let joined = nodes.iter().any(|node| node.node_status() == node_status::NOT_READY);
    let network = || {
        let mut reports = facts.addons.iter().flat_map(|reports| reports.iter());
        let report = reports.find(|report| report.type_ == Some(AddonType::Cni))?;
        report.cause(false).filter(Cause::is_failing)
    };
    joined.then(network).flatten().or_else(|| of_machines(facts, nodes))
}

/// Returns the failure that blocks a cluster's deletion, or `None` if the deletion only takes time.
pub fn of_deletion(facts: &Facts) -> Option<Cause> {
    let nodes = Node::all(facts);
    let going = |wcp: &&Arc<WCPCluster>| wcp.metadata.deletion_timestamp.is_some();
    let infrastructure = || facts.wcp_cluster.as_ref().filter(going).and_then(|_| of_infrastructure(facts));
    of_machines(facts, nodes.iter().filter(|node| node.is_deleting()))
        .filter(Cause::is_failing)
        .or_else(|| infrastructure().filter(Cause::is_failing))
        .or_else(|| of_strangers(facts))
}

/// Returns a cause that names the first object whose deletion waits only for finalizers of other controllers.
fn of_strangers(facts: &Facts) -> Option<Cause> {
    held(&facts.machines)
        .or_else(|| held(&facts.wcp_machines))
        .or_else(|| held(&facts.sets))
        .or_else(|| held(&facts.deployments))
        .or_else(|| held(facts.control_plane.as_slice()))
        .or_else(|| held(facts.wcp_cluster.as_slice()))
        .or_else(|| held(facts.cluster.as_slice()))
}

fn held<K: Watchable>(objects: &[Arc<K>]) -> Option<Cause> {
    objects.iter().find_map(|object| {
        let finalizers = finalizer::strangers(object.meta())?;
        let message =
            format!("deletion is blocked by finalizer {finalizers}, which this controller does not own. Its owner must remove it");
        let (reason, severity) = (tkc::DELETION_HELD.to_owned(), Severity::Warning);
        Some(Cause { object: named(&**object), reason, message, severity })
    })
}

/// The Secrets that contain a cluster's certificate authorities and service account keys, by name suffix, and the matching files
/// on control plane nodes.
const AUTHORITIES: [(&str, &str); 4] = [
    ("ca", "ca.crt and ca.key"),
    ("etcd", "etcd/ca.crt and etcd/ca.key"),
    ("proxy", "front-proxy-ca.crt and front-proxy-ca.key"),
    ("sa", "sa.pub and sa.key"),
];

/// Returns the cause if a running cluster has lost a Secret with certificate authorities or service account keys. Cluster API
/// doesn't create such a Secret again, because nodes trust the lost certificates and keys.
fn of_authorities(cluster: &str, object: &str, conditions: &[Condition]) -> Option<Cause> {
    let lost =
        metav1::find(conditions, capi::CERTIFICATES_AVAILABLE).filter(|found| found.status == FALSE)?;
    let words: Vec<_> = lost.message.split([' ', ',']).collect();
    let named = AUTHORITIES.iter().filter(|(purpose, _)| words.contains(purpose));
    let restored = named.map(|(purpose, files)| format!("Secret {cluster}-{purpose} from {files}"));
    let advice = format!(
        "{}. Restore {}, which are in /etc/kubernetes/pki of a control plane node, as tls.crt and tls.key",
        lost.message,
        restored.collect::<Vec<_>>().join(", ")
    );
    Some(Cause { message: advice, severity: Severity::Warning, ..Cause::of(object.to_owned(), lost) })
}

/// Returns the cause that keeps the control plane from being available.
pub fn of_control_plane(facts: &Facts) -> Option<Cause> {
    let kcp = facts.control_plane.as_ref()?;
    let conditions = kcp.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let object = format!("KubeadmControlPlane {}", kcp.name_any());
    let lost =
        facts.cluster.as_ref().and_then(|cluster| of_authorities(&cluster.name_any(), &object, conditions));
    if lost.is_some() {
        return lost;
    }
    let condition = metav1::find(conditions, capi::AVAILABLE).filter(|condition| condition.status != TRUE)?;
    Some(Cause::of_cluster_api(object, condition))
}

/// Returns the cause that keeps a pool from being available or scaled up.
pub fn of_pools(facts: &Facts) -> Option<Cause> {
    facts.deployments.iter().find_map(|deployment| {
        let conditions = deployment.status.as_ref()?.conditions.as_deref()?;
        let available =
            metav1::find(conditions, capi::AVAILABLE).filter(|condition| condition.status != TRUE);
        let scaling = metav1::find(conditions, capi::SCALING_UP)
            .filter(|condition| condition.status == TRUE && !condition.message.is_empty());
        scaling.or(available).map(|condition| {
            Cause::of_cluster_api(format!("MachineDeployment {}", deployment.name_any()), condition)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fixtures::{condition, from};

    #[test]
    fn a_lost_authority_says_from_what_it_is_restored() {
        let lost = |message: &str| {
            let lost = from(condition("CertificatesAvailable", "False", "NotAvailable", message));
            of_authorities("c", "KubeadmControlPlane c-control-plane", &[lost]).unwrap().message
        };
        assert_eq!(
            lost(
                "Cluster certificates for ca, sa are not available, please check cluster certificate secrets"
            ),
            "Cluster certificates for ca, sa are not available, please check cluster certificate secrets. Restore Secret c-ca from \
             ca.crt and ca.key, Secret c-sa from sa.pub and sa.key, which are in /etc/kubernetes/pki of a control plane node, as \
             tls.crt and tls.key"
        );
        assert_eq!(
            of_authorities("c", "KubeadmControlPlane c-control-plane", &[]).map(|cause| cause.message),
            None
        );
    }
}
