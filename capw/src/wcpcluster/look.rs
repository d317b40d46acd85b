//! Detects whether another machine already uses the address of a new control plane.

use std::net::IpAddr;

use api::capw::WCPCluster;
use kit::events::named;
use kube::ResourceExt;

use super::gather::Facts;
use super::occupied::{Occupied, OccupiedAddress};
use super::plan::{claimed_address, given_endpoint};
use crate::upstream;

/// Connects to the claimed address of a cluster that has neither an endpoint nor machines. Returns the address if it answers.
///
/// An endpoint is never changed once it is known, so that all other clusters are left alone.
pub async fn look(cluster: &WCPCluster, facts: &Facts, occupied: &Occupied) -> Option<OccupiedAddress> {
    let claim = facts.address_claim.as_deref()?;
    let address: IpAddr = claimed_address(facts.address.as_deref()?)?.parse().ok()?;
    if !is_new(cluster, facts) {
        return None;
    }
    occupied.look(address, &claim.uid().unwrap_or_default(), named(claim)).await
}

fn is_new(cluster: &WCPCluster, facts: &Facts) -> bool {
    let owner = facts.cluster.as_deref();
    !facts.paused
        && cluster.metadata.deletion_timestamp.is_none()
        && facts.machines.is_empty()
        && given_endpoint(cluster, owner).is_none()
        && owner.is_some_and(|owner| !upstream::is_control_plane_initialized(owner))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::capi::{IpAddress, IpAddressSpec};
    use tokio::net::TcpListener;

    use super::*;
    use crate::fixtures::{cluster, cluster_facts, on_port_groups, wcp_cluster};
    use crate::wcpcluster::plan::{Front, plan};

    /// The facts of a cluster whose first claim has this address.
    fn claimed(address: &str) -> Facts {
        let mut owner = cluster();
        (owner.spec.control_plane_endpoint, owner.status) = (None, None);
        let facts = Facts { cluster: Some(Arc::new(owner)), flags: on_port_groups(), ..cluster_facts() };
        let Front::VirtualIp(mut claim) = plan(&wcp_cluster(), &facts).unwrap().front else { panic!() };
        claim.metadata.uid = Some("u".into());
        let spec = IpAddressSpec { address: address.into(), ..IpAddressSpec::default() };
        Facts {
            address_claim: Some(Arc::new(*claim)),
            next_claim: Some("test-cluster-control-plane-address-1".into()),
            address: Some(Arc::new(IpAddress { spec, ..IpAddress::default() })),
            ..facts
        }
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
