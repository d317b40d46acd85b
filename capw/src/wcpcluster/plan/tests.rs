use std::sync::Arc;

use api::capi::IpAddressSpec;
use api::vmop::{LoadBalancerIngress, LoadBalancerStatus, VirtualMachineServiceStatus};

use crate::fixtures::{cluster, cluster_facts, nsx, on_port_groups, wcp_cluster};
use crate::network::NetworkFlags;

use super::*;

/// Returns a Cluster without an endpoint.
fn without_endpoint() -> Arc<Cluster> {
    let mut cluster = cluster();
    cluster.spec.control_plane_endpoint = None;
    Arc::new(cluster)
}

fn with_address(ip: Option<&str>) -> VirtualMachineService {
    let ingress = ip.map(|ip| LoadBalancerIngress { ip: Some(ip.into()), hostname: None });
    let load_balancer = Some(LoadBalancerStatus { ingress: ingress.into_iter().collect() });
    let status = VirtualMachineServiceStatus { load_balancer, ..VirtualMachineServiceStatus::default() };
    VirtualMachineService { status: Some(status), ..VirtualMachineService::default() }
}

#[test]
fn a_cluster_needs_what_the_seed_shows() {
    let Plan { policy, network, front } = plan(&wcp_cluster(), &cluster_facts()).unwrap();
    let Front::LoadBalancer(service) = front else { panic!("{front:?}") };
    insta::assert_yaml_snapshot!((policy, network.unwrap(), service));
}

#[test]
fn a_plan_of_the_planned_state_is_the_same() {
    let first = plan(&wcp_cluster(), &cluster_facts()).unwrap();
    let Front::LoadBalancer(service) = &first.front else { panic!("{first:?}") };
    let planned = Facts {
        policy: Some(Arc::new(first.policy.clone())),
        network: first.network.clone().map(Arc::new),
        service: Some(Arc::new((**service).clone())),
        ..cluster_facts()
    };
    assert_eq!(plan(&wcp_cluster(), &planned).unwrap(), first);
    let elsewhere = Facts { flags: on_port_groups(), ..planned };
    assert_eq!(plan(&wcp_cluster(), &elsewhere).unwrap(), first, "a cluster keeps what it began with");
}

#[test]
fn nothing_is_made_without_an_owner_or_of_somebody_elses() {
    let orphan = Facts { cluster: None, ..cluster_facts() };
    assert_eq!(plan(&wcp_cluster(), &orphan), Err(PlanStopReason::Waiting(Waiting::OwnerCluster)));
    let mut policy = plan(&wcp_cluster(), &cluster_facts()).unwrap().policy;
    policy.metadata.owner_references.as_mut().unwrap()[0].name = "other".into();
    let taken = Facts { policy: Some(Arc::new(policy)), ..cluster_facts() };
    let name = "VirtualMachineSetResourcePolicy ben-test/test-cluster";
    assert_eq!(
        plan(&wcp_cluster(), &taken),
        Err(PlanStopReason::Invalid(InvalidInput::NameTaken { object: name.into(), advice: NAME_ADVICE }))
    );
}

#[test]
fn a_running_cluster_without_policy_and_machines_was_moved_and_gets_nothing() {
    let mut initialized = cluster();
    let status = initialized.status.as_mut().unwrap();
    status.initialization.as_mut().unwrap().control_plane_initialized = Some(true);
    let initialized = Some(Arc::new(initialized));
    let moved = || Facts { cluster: initialized.clone(), ..cluster_facts() };
    let refused = Err(PlanStopReason::Invalid(InvalidInput::MovedAway("test-cluster".into())));
    assert_eq!(plan(&wcp_cluster(), &moved()), refused);
    let policy = plan(&wcp_cluster(), &cluster_facts()).unwrap().policy;
    let without_machines = Facts { policy: Some(Arc::new(policy)), ..moved() };
    assert!(plan(&wcp_cluster(), &without_machines).is_ok());
    let without_policy = Facts { machines: vec!["WCPMachine ben-test/node".into()], ..moved() };
    assert!(plan(&wcp_cluster(), &without_policy).is_ok(), "a policy that a user deleted is recreated");
}

#[test]
fn what_a_user_made_is_neither_taken_nor_overwritten() {
    let ours = plan(&wcp_cluster(), &cluster_facts()).unwrap().network.unwrap();
    let mut users = ours.clone();
    users.metadata.owner_references = None;
    users.metadata.labels = None;
    let taken = Facts { network: Some(Arc::new(users.clone())), ..cluster_facts() };
    let name = "VirtualNetwork ben-test/test-cluster-vnet";
    assert_eq!(
        plan(&wcp_cluster(), &taken),
        Err(PlanStopReason::Invalid(InvalidInput::NameTaken { object: name.into(), advice: NAME_ADVICE }))
    );
    assert_eq!(whose(&wcp_cluster(), Some(&users), "test-cluster"), NameAvailability::Taken, "nor deleted");
    let mut left_behind = ours;
    left_behind.metadata.owner_references = None;
    let adopted = Facts { network: Some(Arc::new(left_behind)), ..cluster_facts() };
    assert!(plan(&wcp_cluster(), &adopted).is_ok());
}

#[test]
fn the_endpoint_is_the_load_balancers_until_there_is_one_in_the_spec() {
    let mut cluster = wcp_cluster();
    assert_eq!(endpoint(&cluster, None, None), None);
    assert_eq!(endpoint(&cluster, None, load_balancer_address(&with_address(None))), None);
    let service = with_address(Some("192.168.123.3"));
    let first = endpoint(&cluster, None, load_balancer_address(&service));
    assert_eq!(first, Some(ApiEndpoint { host: "192.168.123.3".into(), port: 6443 }));
    cluster.spec.control_plane_endpoint.clone_from(&first);
    assert_eq!(endpoint(&cluster, None, Some("192.168.123.9")), first);
}

#[test]
fn an_endpoint_that_the_user_gave_the_cluster_goes_before_the_load_balancers() {
    let mut given = crate::fixtures::cluster();
    let found = Some("192.168.123.9");
    let host = |cluster: &Cluster| endpoint(&wcp_cluster(), Some(cluster), found).unwrap().host;
    assert_eq!(host(&given), "192.168.123.3");
    given.spec.control_plane_endpoint = None;
    assert_eq!(host(&given), "192.168.123.9");
}

/// Otherwise, the load balancer would get another address after the cluster is moved to another management cluster.
#[test]
fn a_load_balancer_is_asked_for_the_address_that_the_cluster_has() {
    let asked = |host: &str| {
        let endpoint = ApiEndpoint { host: host.into(), port: 6443 };
        service(&wcp_cluster(), "test-cluster", Some(&endpoint)).spec.load_balancer_ip
    };
    assert_eq!(asked("192.168.123.3").as_deref(), Some("192.168.123.3"));
    assert_eq!(asked("fd00::3").as_deref(), Some("fd00::3"));
    assert_eq!(asked("api.example.com"), None, "a name is resolved by others");
    assert_eq!(service(&wcp_cluster(), "test-cluster", None).spec.load_balancer_ip, None);
}

#[test]
fn a_long_list_is_cut() {
    let names: Vec<_> = (0..7).map(|at| format!("m{at}")).collect();
    let message = Waiting::MachinesGone(names).to_string();
    assert_eq!(
        message,
        "waiting for the remaining objects of the cluster to be deleted: m0, m1, m2, m3, m4 and 2 more"
    );
}

#[test]
fn a_cluster_on_port_groups_claims_an_address_and_has_no_network_of_its_own() {
    let facts = Facts { cluster: Some(without_endpoint()), flags: on_port_groups(), ..cluster_facts() };
    let first = plan(&wcp_cluster(), &facts).unwrap();
    assert_eq!(first.network, None);
    let Front::VirtualIp(claim) = &first.front else { panic!("{first:?}") };
    insta::assert_yaml_snapshot!(claim);
    let mut another = on_port_groups();
    another.endpoint_pool = None;
    let claimed = Facts { address_claim: Some(Arc::new((**claim).clone())), flags: another, ..facts };
    assert_eq!(plan(&wcp_cluster(), &claimed).unwrap(), first, "another pool is for new clusters");
    let balanced = Facts { flags: nsx(), ..claimed };
    assert_eq!(plan(&wcp_cluster(), &balanced).unwrap().front, first.front);
}

#[test]
fn a_cluster_on_port_groups_stays_there_and_a_new_one_with_an_endpoint_gets_its_network() {
    let mut given = wcp_cluster();
    given.spec.control_plane_endpoint = Some(ApiEndpoint { host: "192.168.123.3".into(), port: 6443 });
    assert!(
        plan(&given, &cluster_facts()).unwrap().network.is_some(),
        "NSX is there, and nothing was made yet"
    );
    given.metadata.finalizers = Some(vec![finalizer::WCP_CLUSTER.into()]);
    assert_eq!(plan(&given, &cluster_facts()).unwrap().network, None);
    let balanced =
        Facts { service: Some(Arc::new(service(&given, "test-cluster", None))), ..cluster_facts() };
    assert!(plan(&given, &balanced).unwrap().network.is_some(), "one that somebody deleted is made again");
}

#[test]
fn an_endpoint_that_is_given_needs_no_address_and_one_that_cannot_be_had_is_missing() {
    let given = Facts { flags: on_port_groups(), ..cluster_facts() };
    assert_eq!(plan(&wcp_cluster(), &given).unwrap().front, Front::Given);
    let flags = NetworkFlags { endpoint_pool: None, ..on_port_groups() };
    let none = Facts { cluster: Some(without_endpoint()), flags, ..cluster_facts() };
    assert_eq!(plan(&wcp_cluster(), &none).unwrap().front, Front::Missing);
}

#[test]
fn somebody_elses_namesakes_are_neither_taken_nor_in_the_way_where_none_is_needed() {
    let ours = plan(&wcp_cluster(), &cluster_facts()).unwrap().network.unwrap();
    let mut users = ours;
    users.metadata.owner_references = None;
    users.metadata.labels = None;
    let there = Facts {
        cluster: Some(without_endpoint()),
        network: Some(Arc::new(users)),
        flags: on_port_groups(),
        ..cluster_facts()
    };
    assert_eq!(plan(&wcp_cluster(), &there).unwrap().network, None);
    let Front::VirtualIp(mut claim) = plan(&wcp_cluster(), &there).unwrap().front else { panic!() };
    claim.metadata.owner_references = None;
    claim.metadata.labels = None;
    let taken = Facts { address_claim: Some(Arc::new(*claim)), ..there };
    assert!(matches!(
        plan(&wcp_cluster(), &taken),
        Err(PlanStopReason::Invalid(InvalidInput::NameTaken { .. }))
    ));
}

#[test]
fn only_an_address_that_can_be_reached_becomes_the_endpoint() {
    let host = |address: &str| {
        let spec = IpAddressSpec { address: address.into(), ..IpAddressSpec::default() };
        claimed_address(&IpAddress { spec, ..IpAddress::default() }).map(str::to_owned)
    };
    assert_eq!(host("192.168.0.9").as_deref(), Some("192.168.0.9"));
    assert_eq!(host("fd00::9").as_deref(), Some("fd00::9"));
    for wrong in ["", "x", "0.0.0.0", "::", "224.0.0.18", "192.168.0.9/24"] {
        assert_eq!(host(wrong), None, "{wrong}");
    }
}
