//! Replaces the first control plane node if it can't come up and the cluster's spec has changed since its creation.
//!
//! A KubeadmControlPlane that isn't initialized doesn't roll out changes: it waits for its first Machine. gcm therefore lets
//! the health check mark that Machine as unhealthy, and the KubeadmControlPlane replaces the Machine. A KubeadmControlPlane
//! never replaces the only node once it is initialized.

use api::capi::{KubeadmControlPlane, MachineHealthCheck};
use api::gcm::TanzuKubernetesCluster;
use kube::ResourceExt;

use crate::cluster::facts::Facts;
use crate::cluster::node_groups::nodes::ClusterMachine;
use crate::cluster::pause::origin::cluster_id;

/// The annotation in which Cluster API records the name of the template from which a machine was created.
pub const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";
/// The minimum startup timeout that Cluster API accepts, in seconds.
const SHORTEST_STARTUP_TIMEOUT: i32 = 30;

/// Shortens the startup timeout in the control plane's health check if the first node can't come up and was created from
/// a different template than the one that `control_plane` uses.
pub fn replace_outdated(
    check: &mut MachineHealthCheck,
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    control_plane: &KubeadmControlPlane,
) {
    let template = &control_plane.spec.machine_template.spec.infrastructure_ref.name;
    if is_outdated(tkc, facts, template)
        && let Some(checks) = &mut check.spec.checks
    {
        let usual = checks.node_startup_timeout_seconds.unwrap_or(i32::MAX);
        checks.node_startup_timeout_seconds = Some(usual.min(SHORTEST_STARTUP_TIMEOUT));
    }
}

/// Returns true if the control plane was never initialized, the VMs of its machines never ran, and a machine was created from
/// a different template than `template`.
///
/// After a move or a restore, the status of a working control plane is unknown for a while. Moved clusters and machines without
/// a status are therefore left alone.
fn is_outdated(tkc: &TanzuKubernetesCluster, facts: &Facts, template: &str) -> bool {
    let was_moved = cluster_id(tkc) != tkc.metadata.uid.as_ref();
    if was_moved || facts.is_initialized() || facts.control_plane.as_deref().is_none_or(is_initialized) {
        return false;
    }
    let nodes = ClusterMachine::all(facts);
    let first: Vec<_> = nodes.iter().filter(|node| node.is_control_plane()).collect();
    first.iter().all(|node| never_ran(node)) && first.iter().any(|node| is_of_other_template(node, template))
}

fn is_initialized(kcp: &KubeadmControlPlane) -> bool {
    let initialization = kcp.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.is_some_and(|done| done.control_plane_initialized == Some(true))
}

/// Returns true if the WCPMachine has reported a status, the VM never had an address and was never provisioned, and the node
/// hasn't joined.
fn never_ran(node: &ClusterMachine<'_>) -> bool {
    let Some(status) = node.wcp.and_then(|wcp| wcp.status.as_ref()) else { return false };
    let provisioned = status.initialization.as_ref().is_some_and(|done| done.provisioned == Some(true));
    node.node().is_none() && status.vm_status.is_some() && status.vm_ip.is_none() && !provisioned
}

fn is_of_other_template(node: &ClusterMachine<'_>, template: &str) -> bool {
    let source = node.wcp.and_then(|wcp| wcp.annotations().get(CLONED_FROM));
    !node.is_deleting() && source.is_some_and(|source| source != template)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::names::annotation;

    use super::*;
    use crate::cluster::fixtures::{ClusterFixture, plan};
    use crate::testing::{changed, sound};

    /// Returns a cluster whose first node can't come up.
    fn starting() -> (ClusterFixture, Facts) {
        let fixture = ClusterFixture::running(sound());
        let mut facts = fixture.facts();
        let cluster = Arc::make_mut(facts.cluster.as_mut().unwrap());
        cluster.status.as_mut().unwrap().initialization.as_mut().unwrap().control_plane_initialized =
            Some(false);
        if let Some(status) = Arc::make_mut(facts.control_plane.as_mut().unwrap()).status.as_mut() {
            status.initialization = None;
        }
        for machine in &mut facts.machines {
            Arc::make_mut(machine).status.as_mut().unwrap().node_ref = None;
        }
        for wcp in &mut facts.wcp_machines {
            let status = Arc::make_mut(wcp).status.as_mut().unwrap();
            (status.vm_ip, status.initialization) = (None, None);
            status.vm_status = Some("error".to_owned());
        }
        (fixture, facts)
    }

    fn startup_timeout(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<i32> {
        plan(tkc, facts).unwrap().checks[0].spec.checks.as_ref()?.node_startup_timeout_seconds
    }

    #[test]
    fn a_first_node_of_an_outdated_template_is_replaced() {
        let (fixture, facts) = starting();
        let usual = Some(facts.health.node_startup_timeout);
        assert_eq!(startup_timeout(&fixture.tkc, &facts), usual, "nothing has changed");
        let corrected =
            changed(&fixture.tkc, "/spec/topology/controlPlane/vmClass", "guaranteed-small".into());
        assert_eq!(startup_timeout(&corrected, &facts), Some(SHORTEST_STARTUP_TIMEOUT));
    }

    #[test]
    fn a_node_that_may_have_served_is_left_alone() {
        let (fixture, cannot_start) = starting();
        let corrected =
            changed(&fixture.tkc, "/spec/topology/controlPlane/vmClass", "guaranteed-small".into());
        let usual = Some(cannot_start.health.node_startup_timeout);
        let timeout = |change: fn(&mut Facts)| {
            let mut facts = cannot_start.clone();
            change(&mut facts);
            startup_timeout(&corrected, &facts)
        };
        assert_eq!(timeout(|facts| *facts = ClusterFixture::running(sound()).facts()), usual);
        assert_eq!(
            timeout(|facts| {
                for wcp in &mut facts.wcp_machines {
                    Arc::make_mut(wcp).status = None;
                }
            }),
            usual,
            "its controller has not reported"
        );
        assert_eq!(
            timeout(|facts| {
                for wcp in &mut facts.wcp_machines {
                    Arc::make_mut(wcp).status.as_mut().unwrap().vm_ip = Some("10.0.0.1".to_owned());
                }
            }),
            usual,
            "its VM runs"
        );
        let mut moved = corrected;
        moved.annotations_mut().insert(annotation::CLUSTER_ID.to_owned(), "elsewhere".to_owned());
        assert_eq!(startup_timeout(&moved, &cannot_start), usual, "it was moved");
    }
}
