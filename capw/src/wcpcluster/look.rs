//! Detects whether another machine already uses the address of a new control plane.

use api::capw::WCPCluster;
use kit::events::describe_object;
use kube::ResourceExt;

use super::gather::Facts;
use super::occupied::{Occupied, OccupiedAddress, Sign};
use super::plan::{endpoint_use, unsettled_address};

/// Checks if another machine uses the claimed address: a VM in vCenter has the address, or the address answers. Returns `None` if
/// the address is free, or if the cluster can't change its address anymore.
pub async fn look(cluster: &WCPCluster, facts: &Facts, occupied: &Occupied) -> Option<OccupiedAddress> {
    let address = unsettled_address(cluster, facts)?;
    let claim = facts.address_claim.as_deref()?;
    if let Some(vm) = endpoint_use(cluster, facts).and_then(|found| found.used_by.clone()) {
        return Some(OccupiedAddress {
            address,
            claim: describe_object(claim),
            sign: Sign::Vm(vm),
            is_lasting: true,
        });
    }
    occupied.look(address, &claim.uid().unwrap_or_default(), describe_object(claim)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::capi::{IpAddress, IpAddressSpec};
    use api::names::annotation;
    use api::vmop::{ControlPlaneEndpointStatus, VirtualMachineSetResourcePolicyStatus};
    use tokio::net::TcpListener;

    use super::*;
    use crate::fixtures::{cluster, cluster_facts, on_port_groups, wcp_cluster};
    use crate::wcpcluster::plan::{Front, plan};

    /// Returns the facts for a cluster whose first claim received this address.
    fn claimed(address: &str) -> Facts {
        let mut owner = cluster();
        (owner.spec.control_plane_endpoint, owner.status) = (None, None);
        let facts = Facts { cluster: Some(Arc::new(owner)), flags: on_port_groups(), ..cluster_facts() };
        let Front::VirtualIp(mut claim) = plan(&wcp_cluster(), &facts).unwrap().front else { panic!() };
        claim.metadata.uid = Some("u".into());
        let spec = IpAddressSpec { address: address.into(), ..IpAddressSpec::default() };
        let facts = Facts {
            address_claim: Some(Arc::new(*claim)),
            next_claim: Some("test-cluster-control-plane-address-1".into()),
            address: Some(Arc::new(IpAddress { spec, ..IpAddress::default() })),
            ..facts
        };
        answered(facts, address, None)
    }

    /// Returns the facts after the VM operator has reported which VM has this address.
    fn answered(facts: Facts, address: &str, used_by: Option<&str>) -> Facts {
        let mut policy = plan(&wcp_cluster(), &facts).unwrap().policy;
        let answer = ControlPlaneEndpointStatus {
            host: address.to_owned(),
            used_by: used_by.map(str::to_owned),
            virtual_router_ids: Vec::new(),
        };
        policy.status = Some(VirtualMachineSetResourcePolicyStatus {
            control_plane_endpoint: Some(answer),
            ..VirtualMachineSetResourcePolicyStatus::default()
        });
        Facts { policy: Some(Arc::new(policy)), ..facts }
    }

    #[tokio::test]
    async fn an_address_of_a_vm_in_vcenter_is_left_to_it_and_the_next_one_claimed() {
        let mut facts = answered(claimed("127.86.5.5"), "127.86.5.5", Some("a VM of another installation"));
        facts.occupied = look(&wcp_cluster(), &facts, &Occupied::default()).await;
        let found = facts.occupied.clone().unwrap();
        let words = "a VM of another installation has 127.86.5.5, the address of IPAddressClaim ben-test/";
        assert!(found.to_string().contains(words), "{found}");
        let Front::VirtualIp(next) = plan(&wcp_cluster(), &facts).unwrap().front else { panic!() };
        assert_eq!(next.name_any(), "test-cluster-control-plane-address-1");
        facts.next_claim = None;
        assert_eq!(plan(&wcp_cluster(), &facts).unwrap().front, Front::InUse(found), "the last one");
    }

    #[test]
    fn an_address_is_not_used_before_the_vm_operator_has_answered_for_it() {
        let address = "127.86.5.6".parse().unwrap();
        let front = |facts: &Facts| plan(&wcp_cluster(), facts).unwrap().front;
        let answer = claimed("127.86.5.6");
        assert!(matches!(front(&answer), Front::VirtualIp(_)));
        let other = answered(claimed("127.86.5.6"), "127.86.5.7", None);
        assert_eq!(front(&other), Front::Unchecked(address), "the answer is for an earlier claim");
        let unasked = Facts { policy: None, ..claimed("127.86.5.6") };
        assert_eq!(front(&unasked), Front::Unchecked(address));
        let asks = |facts: &Facts| {
            let annotations = plan(&wcp_cluster(), facts).unwrap().policy.metadata.annotations;
            annotations.unwrap_or_default().remove(annotation::CONTROL_PLANE_ENDPOINT)
        };
        assert_eq!(asks(&unasked).as_deref(), Some("127.86.5.6"));
        let with_nodes =
            Facts { machines: vec!["WCPMachine n/a".into()], policy: None, ..claimed("127.86.5.6") };
        assert!(matches!(front(&with_nodes), Front::VirtualIp(_)), "an existing cluster is left alone");
        let settled = Facts { cluster: Some(Arc::new(cluster())), policy: None, ..claimed("127.86.5.6") };
        assert!(matches!(front(&settled), Front::VirtualIp(_)));
        assert_eq!((asks(&with_nodes), asks(&settled)), (None, None));
    }

    #[tokio::test]
    async fn an_address_that_answers_is_left_to_its_user_and_the_next_one_claimed() {
        let Ok(other) = TcpListener::bind("127.86.5.3:6443").await else { return };
        let occupied = Occupied::default();
        let mut facts = claimed("127.86.5.3");
        facts.occupied = look(&wcp_cluster(), &facts, &occupied).await;
        let found = facts.occupied.clone().unwrap();
        assert!(!found.is_lasting && found.to_string().contains("127.86.5.3, the address of IPAddressClaim"));
        assert_eq!(plan(&wcp_cluster(), &facts).unwrap().front, Front::InUse(found.clone()), "not at once");
        let lasting = OccupiedAddress { is_lasting: true, ..found };
        facts.occupied = Some(lasting.clone());
        let Front::VirtualIp(next) = plan(&wcp_cluster(), &facts).unwrap().front else { panic!() };
        assert_eq!(next.name_any(), "test-cluster-control-plane-address-1");
        facts.next_claim = None;
        assert_eq!(plan(&wcp_cluster(), &facts).unwrap().front, Front::InUse(lasting), "the last one");
        drop(other);
        facts.occupied = look(&wcp_cluster(), &facts, &occupied).await;
        assert_eq!(facts.occupied, None);
        assert!(matches!(plan(&wcp_cluster(), &facts).unwrap().front, Front::VirtualIp(_)));
    }

    #[tokio::test]
    async fn only_the_address_of_a_cluster_without_nodes_is_asked() {
        let Ok(_own) = TcpListener::bind("127.86.5.4:6443").await else { return };
        let asked = async |facts: &Facts, cluster: &WCPCluster| {
            look(cluster, facts, &Occupied::default()).await.is_some()
        };
        assert!(asked(&claimed("127.86.5.4"), &wcp_cluster()).await);
        let with_nodes = Facts { machines: vec!["WCPMachine n/a".into()], ..claimed("127.86.5.4") };
        assert!(!asked(&with_nodes, &wcp_cluster()).await);
        let running = Facts { cluster: Some(Arc::new(cluster())), ..claimed("127.86.5.4") };
        assert!(!asked(&running, &wcp_cluster()).await, "its Cluster has an endpoint");
        let paused = Facts { paused: true, ..claimed("127.86.5.4") };
        assert!(!asked(&paused, &wcp_cluster()).await);
    }
}
