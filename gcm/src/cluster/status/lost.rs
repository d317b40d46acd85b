//! Reports a control plane that lost every copy of the etcd data. The KubeadmControlPlane can't replace such a control plane.

use api::capw::vm_status;
use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::tkc as words;
use kube::ResourceExt;

use crate::cluster::facts::Facts;
use crate::cluster::node_groups::nodes::ClusterMachine;

/// Returns the cause if all nodes that were etcd members are gone, because their VMs or Machines were deleted. A
/// KubeadmControlPlane creates a member by copying from another member, so it can't replace the last one.
pub fn find_lost_control_plane(facts: &Facts, nodes: &[ClusterMachine<'_>]) -> Option<Cause> {
    let kcp = facts.control_plane.as_ref().filter(|_| facts.is_initialized())?;
    let members = || nodes.iter().filter(|node| node.is_control_plane() && node.node().is_some());
    let is_gone = |node: &ClusterMachine<'_>| node.is_deleting() || node.vm_status() == vm_status::NOT_FOUND;
    if members().any(|node| !is_gone(node)) {
        return None;
    }
    let (name, namespace) = (kcp.labels().get(api::names::label::CLUSTER_NAME)?, kcp.namespace()?);
    let lost: Vec<_> = members().filter(|node| !node.is_deleting()).map(ClusterMachine::name).collect();
    let delete = format!("delete the cluster: layercake delete {name} -n {namespace}");
    let message = match &lost[..] {
        [] => format!(
            "the Machines of all control plane nodes that had the data of etcd were deleted, and the data is lost with them. Nothing replaces them. To create the cluster again, first {delete}"
        ),
        [one] => format!(
            "the VM of the cluster's only control plane node (Machine {one}) no longer exists, and it had the only copy of etcd's data. Nothing replaces it. Restore the VM in vCenter from a backup, or {delete}"
        ),
        all => format!(
            "the VMs of all control plane nodes (Machines {}) no longer exist, and they had all copies of etcd's data. Nothing replaces them. Restore a VM in vCenter from a backup, or {delete}",
            all.join(", ")
        ),
    };
    Some(Cause {
        object: format!("KubeadmControlPlane {}", kcp.name_any()),
        reason: words::CANNOT_BE_REMEDIATED.to_owned(),
        message,
        severity: Severity::Error,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::conditions::{READY, find};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::cluster::fixtures::ClusterFixture;
    use crate::cluster::status::compute_status;
    use crate::testing::sound;

    fn is_of_control_plane(labels: &std::collections::BTreeMap<String, String>) -> bool {
        labels.contains_key(api::names::label::CONTROL_PLANE)
    }

    /// Returns a running cluster and its facts after `change` set the VM status of each control plane node, by index.
    fn with_vms(change: impl Fn(usize) -> Option<&'static str>) -> (ClusterFixture, Facts) {
        let fixture = ClusterFixture::running(sound());
        let mut facts = fixture.facts();
        let members = facts.wcp_machines.iter_mut().filter(|wcp| is_of_control_plane(wcp.labels()));
        for (at, wcp) in members.enumerate() {
            if let Some(word) = change(at) {
                Arc::make_mut(wcp).status.as_mut().unwrap().vm_status = Some(word.to_owned());
            }
        }
        (fixture, facts)
    }

    #[test]
    fn a_control_plane_without_a_copy_of_etcd_says_that_nothing_replaces_it() {
        let (fixture, facts) = with_vms(|_| Some(vm_status::NOT_FOUND));
        let ready = compute_status(&fixture.tkc, &facts, None).status.conditions;
        let ready = find(&ready, READY).unwrap().clone();
        assert_eq!(ready.reason.as_deref(), Some("CannotBeRemediated"));
        let message = ready.message.unwrap();
        assert!(message.contains("Nothing replaces"), "{message}");
        assert!(message.ends_with("delete the cluster: layercake delete c -n ns"), "{message}");
    }

    #[test]
    fn deleted_machines_take_the_data_along() {
        let (_, mut facts) = with_vms(|_| None);
        for machine in facts.machines.iter_mut().filter(|machine| is_of_control_plane(machine.labels())) {
            Arc::make_mut(machine).metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        }
        let lost = find_lost_control_plane(&facts, &ClusterMachine::all(&facts)).unwrap();
        assert!(lost.message.starts_with("the Machines of all control plane nodes"), "{}", lost.message);
        facts.machines.retain(|machine| !is_of_control_plane(machine.labels()));
        assert!(find_lost_control_plane(&facts, &ClusterMachine::all(&facts)).is_some());
    }

    #[test]
    fn a_node_that_is_left_repairs_the_others() {
        let (fixture, facts) = with_vms(|_| None);
        assert!(find_lost_control_plane(&facts, &ClusterMachine::all(&facts)).is_none());
        let members = facts.wcp_machines.iter().filter(|wcp| is_of_control_plane(wcp.labels())).count();
        if members > 1 {
            let (_, facts) = with_vms(|at| (at > 0).then_some(vm_status::NOT_FOUND));
            assert!(find_lost_control_plane(&facts, &ClusterMachine::all(&facts)).is_none());
        }
        let mut starting = facts;
        starting.cluster = None;
        assert!(
            find_lost_control_plane(&starting, &ClusterMachine::all(&starting)).is_none(),
            "{}",
            fixture.tkc.name_any()
        );
    }
}
