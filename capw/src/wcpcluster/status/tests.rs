use std::sync::Arc;

use api::capw::ApiEndpoint;
use api::conditions::Condition as Graded;
use jiff::Timestamp;
use kit::status::settle_all;

use crate::error::{InvalidInput, Waiting};
use crate::fixtures::{cluster_facts, wcp_cluster};
use crate::wcpcluster::occupied::{OccupiedAddress, Sign};
use crate::wcpcluster::plan;

use super::*;

/// Returns the step results after the policy, the network and the load balancer were applied. `network` is the network's
/// condition. If `endpoint` is true, the endpoint is known.
fn made(network: Option<Graded>, endpoint: bool) -> StepResults {
    let plan = plan::plan(&wcp_cluster(), &cluster_facts()).unwrap();
    let mut realised = plan.network.unwrap();
    let plan::Front::LoadBalancer(service) = plan.front else { panic!() };
    realised.status.get_or_insert_default().conditions = network.into_iter().collect();
    let endpoint = endpoint.then(|| ApiEndpoint { host: "192.168.123.3".into(), port: 6443 });
    StepResults {
        policy: Ok(Arc::new(plan.policy)),
        network: Some(Ok(Arc::new(realised))),
        front: FrontResult::LoadBalancer(Ok(Arc::new(*service))),
        endpoint: Ok(endpoint),
    }
}

fn refused() -> Error {
    Error::Api { what: "applying it".into(), source: kube::Error::LinesCodecMaxLineLengthExceeded }
}

/// Returns the status as the driver would write it.
fn settled(
    cluster: &WCPCluster,
    facts: &Facts,
    outcome: &ReconcileOutcome<Box<StepResults>, Error>,
    now: Timestamp,
) -> WCPClusterStatus {
    let mut new = status(cluster, facts, outcome);
    settle_all(&mut new, cluster.status.as_ref(), now);
    new
}

fn of(made: StepResults) -> WCPClusterStatus {
    let outcome = ReconcileOutcome::Done(Box::new(made));
    settled(&wcp_cluster(), &cluster_facts(), &outcome, Timestamp::UNIX_EPOCH)
}

fn ready(status: &WCPClusterStatus) -> (&str, &str) {
    let ready = find(&status.conditions, "Ready").unwrap();
    (&ready.reason, &ready.message)
}

#[test]
fn a_cluster_that_has_all_is_provisioned_as_in_the_seed() {
    insta::assert_yaml_snapshot!(of(made(Some(Graded::is_true("Ready")), true)));
}

#[test]
fn the_first_thing_that_is_missing_is_named() {
    let up = || Some(Graded::is_true("Ready"));
    let failed = Graded::is_false("Ready", "Error", "OutOfAddresses", "no subnet left");
    let cases = [
        (
            made(None, false),
            "ClusterNetworkProvisionStarted",
            "the network provider has not realised VirtualNetwork ben-test/test-cluster-vnet yet",
        ),
        (
            made(Some(failed), true),
            "ClusterNetworkProvisionFailed",
            "VirtualNetwork ben-test/test-cluster-vnet: OutOfAddresses: no subnet left",
        ),
        (
            made(up(), false),
            "WaitingForLoadBalancerIP",
            "VirtualMachineService ben-test/test-cluster-control-plane-service has no address yet",
        ),
        (
            StepResults { policy: Err(refused()), ..made(up(), true) },
            "ResourcePolicyCreationFailed",
            "applying it: ",
        ),
    ];
    for (made, reason, message) in cases {
        let status = of(made);
        assert_eq!((ready(&status).0, status.ready), (reason, Some(false)));
        assert!(ready(&status).1.starts_with(message), "{}", ready(&status).1);
    }
}

#[test]
fn machines_need_network_and_endpoint_not_a_summary() {
    let up = Some(Graded::is_true("Ready"));
    assert!(of(made(up.clone(), false)).initialization.is_none());
    assert!(of(made(None, true)).initialization.is_none());
    let unsure = StepResults { policy: Err(refused()), ..made(up, true) };
    assert!(of(unsure).initialization.is_some());
}

#[test]
fn provisioned_once_is_provisioned_for_good() {
    let mut cluster = wcp_cluster();
    cluster.status = Some(of(made(Some(Graded::is_true("Ready")), true)));
    let outcome = ReconcileOutcome::Done(Box::new(made(None, true)));
    let status = settled(&cluster, &cluster_facts(), &outcome, Timestamp::UNIX_EPOCH);
    assert_eq!((status.initialization.is_some(), status.ready), (true, Some(false)));
}

#[test]
fn on_the_way_out_the_summary_says_what_it_waits_for() {
    let waiting = ReconcileOutcome::Failed(Error::Waiting(Waiting::MachinesGone(vec![
        "WCPMachine ben-test/node".into(),
    ])));
    let status = settled(&wcp_cluster(), &cluster_facts(), &waiting, Timestamp::UNIX_EPOCH);
    let left = "waiting for the remaining objects of the cluster to be deleted: WCPMachine ben-test/node";
    assert_eq!(ready(&status), ("Deleting", left));
}

#[test]
fn a_policy_that_was_moved_away_is_not_reported_as_ready() {
    let mut cluster = wcp_cluster();
    cluster.status = Some(of(made(Some(Graded::is_true("Ready")), true)));
    let moved = ReconcileOutcome::Failed(Error::Invalid(InvalidInput::MovedAway("test-cluster".into())));
    let status = settled(&cluster, &cluster_facts(), &moved, Timestamp::UNIX_EPOCH);
    for type_ in ["Ready", "ResourcePolicyReady"] {
        let condition = find(&status.conditions, type_).unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "MovedAway"), "{type_}");
    }
    assert_eq!(status.initialization, Some(Initialization { provisioned: Some(true) }));
}

#[test]
fn pause_keeps_the_conditions() {
    let mut cluster = wcp_cluster();
    let before = of(made(Some(Graded::is_true("Ready")), true));
    cluster.status = Some(before.clone());
    let facts = Facts { paused: true, ..cluster_facts() };
    let paused = settled(&cluster, &facts, &ReconcileOutcome::Paused, Timestamp::UNIX_EPOCH);
    assert_eq!(find(&paused.conditions, "Paused").unwrap().status, "True");
    assert_eq!(paused.ready, before.ready);
    assert_eq!(ready(&paused), ready(&before));
}

#[test]
fn the_same_facts_later_make_the_same_status() {
    let mut cluster = wcp_cluster();
    let outcome = || ReconcileOutcome::Done(Box::new(made(None, false)));
    let one = settled(&cluster, &cluster_facts(), &outcome(), Timestamp::UNIX_EPOCH);
    cluster.status = Some(one.clone());
    assert_eq!(settled(&cluster, &cluster_facts(), &outcome(), Timestamp::from_second(9).unwrap()), one);
}

#[test]
fn a_load_balancer_with_another_address_than_the_endpoint_is_mentioned() {
    let mut made = made(Some(Graded::is_true("Ready")), true);
    let FrontResult::LoadBalancer(Ok(service)) = &made.front else { panic!() };
    let mut service = VirtualMachineService::clone(service);
    let ingress = |ip: &str| {
        let ingress = api::vmop::LoadBalancerIngress { ip: Some(ip.into()), hostname: None };
        Some(api::vmop::LoadBalancerStatus { ingress: vec![ingress] })
    };
    let mut message = |ip: &str| {
        service.status.get_or_insert_default().load_balancer = ingress(ip);
        made.front = FrontResult::LoadBalancer(Ok(Arc::new(service.clone())));
        let condition = endpoint_condition(&made, &cluster_facts(), None);
        assert_eq!(condition.status, "True");
        condition.message
    };
    assert_eq!(message("192.168.123.3"), "");
    assert!(
        message("192.168.123.9")
            .ends_with("has address 192.168.123.9, but the endpoint remains 192.168.123.3")
    );
}

#[test]
fn an_address_of_another_machine_is_named_until_the_cluster_has_one_and_its_claim_after_that() {
    let occupied = OccupiedAddress {
        address: "192.168.0.9".parse().unwrap(),
        claim: "IPAddressClaim ben-test/vip".into(),
        sign: Sign::Answer,
        is_lasting: false,
    };
    let front = FrontResult::InUse(occupied);
    let waits = of(StepResults { network: None, front, ..made(None, false) });
    assert_eq!((ready(&waits).0, waits.ready), ("EndpointInUse", Some(false)));
    let words = "port 6443 of 192.168.0.9, the address of IPAddressClaim ben-test/vip, answers";
    assert!(ready(&waits).1.starts_with(words), "{}", ready(&waits).1);
    let mut claim = IpAddressClaim::default();
    (claim.metadata.namespace, claim.metadata.name) = (Some("ben-test".into()), Some("vip".into()));
    let facts = Facts { former_claims: vec![Arc::new(claim)], ..cluster_facts() };
    let front = FrontResult::Given;
    let made = StepResults { network: None, front, ..made(None, true) };
    let ready = endpoint_condition(&made, &facts, None);
    assert_eq!(ready.status, "True");
    assert!(ready.message.contains("IPAddressClaim ben-test/vip were not used"), "{}", ready.message);
}

#[test]
fn a_cluster_waits_for_the_vm_operator_to_look_its_address_up() {
    let front = FrontResult::Unchecked("192.168.0.9".parse().unwrap());
    let waits = of(StepResults { network: None, front, ..made(None, false) });
    assert_eq!((ready(&waits).0, waits.ready), ("WaitingForEndpointLookup", Some(false)));
    let message = ready(&waits).1;
    for words in ["has 192.168.0.9 as", "VirtualMachineSetResourcePolicy test-cluster", "layercake doctor"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(waits.initialization, None, "no Machine is created yet");
}

#[test]
fn a_name_that_is_taken_is_worth_an_event_and_a_summary_is_not() {
    let of = |outcome| settled(&wcp_cluster(), &cluster_facts(), &outcome, Timestamp::UNIX_EPOCH).conditions;
    let taken = notable(&of(ReconcileOutcome::Failed(Error::Invalid(InvalidInput::NameTaken {
        object: "VirtualNetwork n/a".into(),
        advice: "rename it",
    }))));
    assert_eq!(taken.iter().map(|c| c.reason.as_str()).collect::<Vec<_>>(), ["NameTaken"]);
    let made = notable(&of(ReconcileOutcome::Done(Box::new(made(None, false)))));
    assert_eq!(made.iter().find(|c| c.type_ == "Ready" || c.type_ == "Paused"), None);
}

#[test]
fn a_claim_says_what_it_waits_for() {
    let claim = || {
        let mut claim = IpAddressClaim::default();
        (claim.metadata.namespace, claim.metadata.name) = (Some("ben-test".into()), Some("vip".into()));
        (claim.spec.pool_ref.kind, claim.spec.pool_ref.name) = ("InClusterIPPool".into(), "vips".into());
        claim
    };
    let of_claim = |claim: IpAddressClaim, address: Option<IpAddress>| {
        let front = FrontResult::VirtualIp(Ok(Arc::new(claim)), address.map(Arc::new));
        let status = of(StepResults { network: None, front, ..made(None, false) });
        let (reason, message) = ready(&status);
        (reason.to_owned(), message.to_owned())
    };
    let expected = "IPAddressClaim ben-test/vip has no address yet: waiting for the IPAM provider of InClusterIPPool vips";
    assert_eq!(of_claim(claim(), None), ("WaitingForIPAddress".into(), expected.into()));
    let mut exhausted = claim();
    let ready = condition("Ready", false, "PoolExhausted", "no address is free", None);
    exhausted.status.get_or_insert_default().conditions = Some(vec![ready]);
    let expected = "IPAddressClaim ben-test/vip: PoolExhausted: no address is free";
    assert_eq!(of_claim(exhausted, None).1, expected);
    let states = [PoolState::NotServed, PoolState::Missing, PoolState::NotRead, PoolState::Full { used: 9 }];
    let texts = states.map(|state| describe_pool("InClusterIPPool", "vips", state));
    insta::assert_snapshot!(texts.join("\n"), @r"
    InClusterIPPool vips does not exist, since the API server does not serve its kind. Install the IPAM provider
    InClusterIPPool vips does not exist. Create it
    the IPAM provider has not read InClusterIPPool vips. Check that the provider is running
    InClusterIPPool vips has no free address, 9 are in use. Add addresses to it, or delete clusters that use it
    ");
    let (reason, message) = of_claim(claim(), Some(IpAddress::default()));
    assert_eq!(reason, "IPAddressInvalid");
    assert!(message.contains("Correct the pool"), "{message}");
}

#[test]
fn without_an_endpoint_the_remedy_is_named() {
    let status = of(StepResults { network: None, front: FrontResult::Missing, ..made(None, false) });
    assert_eq!(ready(&status).0, "ControlPlaneEndpointMissing");
    assert!(ready(&status).1.contains("--endpoint-pool"), "{}", ready(&status).1);
    let given = of(StepResults { network: None, front: FrontResult::Given, ..made(None, true) });
    assert_eq!(given.ready, Some(true), "machines on a port group need no network of their own");
}
