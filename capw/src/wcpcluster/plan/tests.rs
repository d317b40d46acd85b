use std::sync::Arc;

use api::vmop::{LoadBalancerIngress, LoadBalancerStatus, VirtualMachineServiceStatus};

use crate::fixtures::{cluster, wcp_cluster};

use super::*;

fn facts() -> Facts {
    Facts {
        cluster: Some(Arc::new(cluster())),
        name: "test-cluster".into(),
        policy: None,
        network: None,
        service: None,
        machines: Vec::new(),
        paused: false,
    }
}

fn with_address(ip: Option<&str>) -> VirtualMachineService {
    let ingress = ip.map(|ip| LoadBalancerIngress { ip: Some(ip.into()), hostname: None });
    let load_balancer = Some(LoadBalancerStatus { ingress: ingress.into_iter().collect() });
    let status = VirtualMachineServiceStatus { load_balancer, ..VirtualMachineServiceStatus::default() };
    VirtualMachineService { status: Some(status), ..VirtualMachineService::default() }
}

#[test]
fn a_cluster_needs_what_the_seed_shows() {
    let Plan { policy, network, service } = plan(&wcp_cluster(), &facts()).unwrap();
    insta::assert_yaml_snapshot!((policy, network, service));
}

#[test]
fn a_plan_of_the_planned_state_is_the_same() {
    let first = plan(&wcp_cluster(), &facts()).unwrap();
    let planned = Facts {
        policy: Some(Arc::new(first.policy.clone())),
        network: Some(Arc::new(first.network.clone())),
        service: Some(Arc::new(first.service.clone())),
        ..facts()
    };
    assert_eq!(plan(&wcp_cluster(), &planned).unwrap(), first);
}

#[test]
fn nothing_is_made_without_an_owner_or_of_somebody_elses() {
    let orphan = Facts { cluster: None, ..facts() };
    assert_eq!(plan(&wcp_cluster(), &orphan), Err(Stop::Waiting(Waiting::OwnerCluster)));
    let mut policy = plan(&wcp_cluster(), &facts()).unwrap().policy;
    policy.metadata.owner_references.as_mut().unwrap()[0].name = "other".into();
    let taken = Facts { policy: Some(Arc::new(policy)), ..facts() };
    let name = "VirtualMachineSetResourcePolicy ben-test/test-cluster";
    assert_eq!(
        plan(&wcp_cluster(), &taken),
        Err(Stop::Invalid(InvalidInput::NameTaken { object: name.into(), advice: NAME_ADVICE }))
    );
}

#[test]
fn what_a_user_made_is_neither_taken_nor_overwritten() {
    let ours = plan(&wcp_cluster(), &facts()).unwrap().network;
    let mut users = ours.clone();
    users.metadata.owner_references = None;
    users.metadata.labels = None;
    let taken = Facts { network: Some(Arc::new(users.clone())), ..facts() };
    let name = "VirtualNetwork ben-test/test-cluster-vnet";
    assert_eq!(
        plan(&wcp_cluster(), &taken),
        Err(Stop::Invalid(InvalidInput::NameTaken { object: name.into(), advice: NAME_ADVICE }))
    );
    assert_eq!(whose(&wcp_cluster(), Some(&users), "test-cluster"), Claim::Taken, "nor deleted");
    let mut left_behind = ours;
    left_behind.metadata.owner_references = None;
    let adopted = Facts { network: Some(Arc::new(left_behind)), ..facts() };
    assert!(plan(&wcp_cluster(), &adopted).is_ok());
}

#[test]
fn the_endpoint_is_the_load_balancers_until_there_is_one_in_the_spec() {
    let mut cluster = wcp_cluster();
    assert_eq!(endpoint(&cluster, None, None), None);
    assert_eq!(endpoint(&cluster, None, Some(&with_address(None))), None);
    let first = endpoint(&cluster, None, Some(&with_address(Some("192.168.123.3"))));
    assert_eq!(first, Some(ApiEndpoint { host: "192.168.123.3".into(), port: 6443 }));
    cluster.spec.control_plane_endpoint.clone_from(&first);
    assert_eq!(endpoint(&cluster, None, Some(&with_address(Some("192.168.123.9")))), first);
}

#[test]
fn an_endpoint_that_the_user_gave_the_cluster_goes_before_the_load_balancers() {
    let mut given = crate::fixtures::cluster();
    let service = with_address(Some("192.168.123.9"));
    let host = |cluster: &Cluster| endpoint(&wcp_cluster(), Some(cluster), Some(&service)).unwrap().host;
    assert_eq!(host(&given), "192.168.123.3");
    given.spec.control_plane_endpoint = None;
    assert_eq!(host(&given), "192.168.123.9");
}

#[test]
fn a_long_list_is_cut() {
    let names: Vec<_> = (0..7).map(|at| format!("m{at}")).collect();
    let message = Waiting::MachinesGone(names).to_string();
    assert_eq!(message, "still there of the cluster: m0, m1, m2, m3, m4 and 2 more");
}
