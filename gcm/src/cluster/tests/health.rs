//! Tests phases, and the replaced nodes in the status.

use std::sync::Arc;

use api::gcm::parts::{RemediatedNode, phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use super::shown;
use crate::cluster::facts::Facts;
use crate::cluster::fixtures::{ASKED, ClusterFixture, MachineFixture, READY, condition, from};
use crate::cluster::status::compute_status;
use crate::cluster::status::milestones;
use crate::testing::sound;

const FULL_DISK: MachineFixture = MachineFixture::unready("error", "CreationFailed", "the datastore is full");
const SILENT: MachineFixture = MachineFixture::ready(Some("Unknown"));

/// Computes and stores the status. Returns the phase.
fn step(fixture: &mut ClusterFixture) -> String {
    fixture.tkc.status = Some(shown(fixture));
    fixture.tkc.status.as_ref().unwrap().phase.clone().unwrap()
}

/// The spec of a running cluster changes.
#[test]
fn a_change_is_updating_until_the_cluster_runs_or_the_change_comes_to_a_halt() {
    let mut fixture = ClusterFixture::running(sound());
    assert_eq!(step(&mut fixture), phase::RUNNING);
    fixture.tkc.spec.topology.control_plane.replicas = Some(3);
    assert_eq!(step(&mut fixture), phase::UPDATING);
    // Every machine exists, but the new ones aren't ready yet.
    fixture.plan.control_plane.spec.replicas = Some(3);
    fixture.groups[0] = vec![READY, READY, ASKED];
    assert_eq!(step(&mut fixture), phase::UPDATING, "nothing is ill");
    fixture.groups[0][2] = FULL_DISK;
    assert_eq!(step(&mut fixture), phase::UPDATE_FAILED);
    let error = fixture.tkc.status.as_ref().unwrap().cluster_api_status.clone().unwrap();
    assert_eq!(error.error_reason.as_deref(), Some("CreationFailed"));
    assert!(error.error_message.unwrap().ends_with("CreationFailed: the datastore is full"));
    fixture.groups[0][2] = ASKED;
    assert_eq!(step(&mut fixture), phase::UPDATING, "it goes on");
    fixture.groups[0][2] = READY;
    assert_eq!(step(&mut fixture), phase::RUNNING);
    assert_eq!(fixture.tkc.status.as_ref().unwrap().cluster_api_status.as_ref().unwrap().error_reason, None);
}

/// An unhealthy cluster stays unhealthy until it runs again.
#[test]
fn a_cluster_whose_node_is_replaced_stays_unhealthy_until_the_new_one_is_ready() {
    let mut fixture = ClusterFixture::running(sound());
    assert_eq!(step(&mut fixture), phase::RUNNING);
    fixture.groups[1][0] = SILENT;
    assert_eq!(step(&mut fixture), phase::UNHEALTHY);
    fixture.groups[1] = vec![SILENT, ASKED];
    assert_eq!(step(&mut fixture), phase::UNHEALTHY, "a machine more is the remedy");
    fixture.groups[1] = vec![READY];
    assert_eq!(step(&mut fixture), phase::RUNNING);
}

/// Returns the facts with an unhealthy worker that its owner replaces.
fn remediated(facts: Facts) -> Facts {
    deleted(facts, Some("MachineDeleting"))
}

/// Returns the facts with an unhealthy worker that is being deleted, and its owner's remediation reason, if any.
fn deleted(mut facts: Facts, remediation: Option<&str>) -> Facts {
    let machine = Arc::make_mut(facts.machines.last_mut().unwrap());
    machine.metadata.deletion_timestamp = Some(Time("2026-11-21T13:00:00Z".parse().unwrap()));
    let conditions = machine.status.as_mut().unwrap().conditions.get_or_insert_default();
    let failed =
        "Health check failed:\n  * Condition Ready on Node is reporting status Unknown for more than 5m0s";
    conditions.push(from(condition("HealthCheckSucceeded", "False", "UnhealthyNode", failed)));
    conditions.extend(remediation.map(|reason| from(condition("OwnerRemediated", "False", reason, ""))));
    facts
}

#[test]
fn a_node_that_was_replaced_is_counted_once_and_its_evidence_kept() {
    let mut fixture = ClusterFixture::running(sound());
    let before = shown(&fixture);
    assert_eq!((before.node_remediation_count, before.remediated_nodes.len()), (None, 0));
    fixture.tkc.status = Some(before.clone());
    fixture.groups[1][0] = MachineFixture {
        below: Some(("BootstrapFailed", "kubeadm: the registry does not answer")),
        ..SILENT
    };
    let facts = remediated(fixture.facts());
    let after = compute_status(&fixture.tkc, &facts, None).status;
    insta::assert_yaml_snapshot!(after.remediated_nodes);
    assert_eq!(after.node_remediation_count, Some(1));
    let events = milestones::list_milestones(&before, &after, None);
    assert!(events.iter().any(|event| event.warning && event.reason == "NodeRemediated"), "{events:?}");

    // Neither the next reconcile nor the Machine's deletion changes the count. A new process only knows the status.
    fixture.tkc.status = Some(after.clone());
    let again = compute_status(&fixture.tkc, &facts, None).status;
    assert_eq!((again.node_remediation_count, &again.remediated_nodes), (Some(1), &after.remediated_nodes));
    let gone = shown(&fixture);
    assert_eq!((gone.node_remediation_count, &gone.remediated_nodes), (Some(1), &after.remediated_nodes));
}

/// Under load, Cluster API deletes the WCPMachine before gcm reads it.
#[test]
fn the_cause_of_a_replacement_is_known_after_its_wcpmachine_is_deleted() {
    let mut fixture = ClusterFixture::running(sound());
    fixture.tkc.status = Some(shown(&fixture));
    fixture.groups[1][0] = MachineFixture { below: Some(("Deleting", "")), ..SILENT };
    let mut facts = remediated(fixture.facts());
    let wcp = Arc::make_mut(facts.wcp_machines.last_mut().unwrap());
    wcp.metadata.deletion_timestamp = Some(Time("2026-11-21T13:00:01Z".parse().unwrap()));
    let replaced =
        |facts: &Facts| compute_status(&fixture.tkc, facts, None).status.remediated_nodes[0].clone();
    assert_eq!(replaced(&facts).reason, "UnhealthyNode");
    let machine = Arc::make_mut(facts.machines.last_mut().unwrap());
    let cause = "VirtualMachineLost: VM worker was removed: VmRemovedEvent at noon".to_owned();
    machine.annotations_mut().insert("cluster.x-k8s.io/remediate-machine".to_owned(), cause);
    let node = replaced(&facts);
    assert_eq!(node.reason, "VirtualMachineLost");
    assert!(node.message.ends_with("VM worker was removed: VmRemovedEvent at noon"), "{}", node.message);
}

#[test]
fn the_last_five_are_remembered_and_all_are_counted() {
    let mut fixture = ClusterFixture::running(sound());
    fixture.groups[1][0] = SILENT;
    for number in 0..7 {
        let mut facts = remediated(fixture.facts());
        facts.now = "2026-11-21T15:00:00Z".parse().unwrap();
        let worker = facts.machines.last_mut().unwrap();
        Arc::make_mut(worker).metadata.name = Some(format!("worker-{number}"));
        fixture.tkc.status = Some(compute_status(&fixture.tkc, &facts, None).status);
    }
    let last = fixture.tkc.status.unwrap();
    assert_eq!(last.node_remediation_count, Some(7));
    let names: Vec<_> = last.remediated_nodes.iter().map(|node| node.machine.as_str()).collect();
    assert_eq!(names, ["worker-2", "worker-3", "worker-4", "worker-5", "worker-6"]);
}

/// A healthy Machine that a user deletes isn't a remediation.
#[test]
fn a_machine_that_somebody_deletes_is_not_counted() {
    let fixture = ClusterFixture::running(sound());
    let mut facts = fixture.facts();
    let worker = facts.machines.last_mut().unwrap();
    Arc::make_mut(worker).metadata.deletion_timestamp = Some(Time("2026-11-21T13:00:00Z".parse().unwrap()));
    assert!(!worker.name_any().is_empty());
    assert_eq!(compute_status(&fixture.tkc, &facts, None).status.node_remediation_count, None);
}

/// An unhealthy Machine can be deleted for other reasons: with its cluster, with its pool, or when the pool shrinks.
#[test]
fn an_unhealthy_machine_that_its_owner_does_not_replace_is_not_counted() {
    let mut fixture = ClusterFixture::running(sound());
    fixture.groups[1][0] = SILENT;
    let before = shown(&fixture);
    fixture.tkc.status = Some(before.clone());
    for (remediation, count) in [
        (None, None),
        (Some("WaitingForRemediation"), None),
        (Some("RemediationDeferred"), None),
        (Some("CannotBeRemediated"), None),
        (Some("MachineDeleting"), Some(1)),
    ] {
        let after = compute_status(&fixture.tkc, &deleted(fixture.facts(), remediation), None).status;
        assert_eq!(after.node_remediation_count, count, "{remediation:?}");
        let events = milestones::list_milestones(&before, &after, None);
        assert_eq!(events.iter().any(|event| event.reason == "NodeRemediated"), count.is_some());
    }
}

/// Cluster API has observed a pool's new template, but its counts still include the former machines.
#[test]
fn a_pool_with_machines_of_its_former_template_is_not_settled() {
    let mut fixture = ClusterFixture::running(sound());
    assert_eq!(step(&mut fixture), phase::RUNNING);
    let mut facts = fixture.facts();
    Arc::make_mut(&mut facts.deployments[0]).spec.template.spec.infrastructure_ref.name =
        "another".to_owned();
    let shown = compute_status(&fixture.tkc, &facts, None).status;
    assert_eq!(shown.phase.as_deref(), Some(phase::UPDATING));
    Arc::make_mut(&mut facts.sets[0]).status.as_mut().unwrap().replicas = Some(0);
    assert_eq!(compute_status(&fixture.tkc, &facts, None).status.phase.as_deref(), Some(phase::RUNNING));
}

#[test]
fn times_and_limits_of_health_checks_are_configured() {
    let fixture = ClusterFixture::running(sound());
    let mut facts = fixture.facts();
    facts.health.node_silent_timeout = 90;
    facts.health.node_startup_timeout = 600;
    facts.health.max_unhealthy = "100%".to_owned();
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.node_pools[0].replicas = Some(3);
    let plan = crate::cluster::fixtures::plan(&tkc, &facts).unwrap();
    let check = serde_json::to_value(&plan.checks[1].spec).unwrap();
    assert_eq!(check["checks"]["nodeStartupTimeoutSeconds"], 600);
    assert_eq!(check["checks"]["unhealthyNodeConditions"][0]["timeoutSeconds"], 90);
    assert_eq!(check["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"], "100%");
    assert_eq!(plan.deployments[0].spec.template.spec, fixture.plan.deployments[0].spec.template.spec);
}

#[test]
fn a_pool_whose_every_node_falls_ill_is_left_alone_for_a_while() {
    let mut fixture = ClusterFixture::running(sound());
    let pool = fixture.tkc.spec.topology.node_pools[0].name.clone();
    let deployment = api::names::machine_deployment("ns", "c", &pool);
    let mut facts = fixture.facts();
    facts.now = "2026-11-21T13:30:00Z".parse().unwrap();
    let at_most = |fixture: &ClusterFixture, facts: &Facts| {
        let plan = crate::cluster::fixtures::plan(&fixture.tkc, facts).unwrap();
        let check = plan.checks.into_iter().find(|check| check.name_any() == deployment).unwrap();
        json!(check.spec.remediation.unwrap().trigger_if.unwrap().unhealthy_less_than_or_equal_to)
    };
    assert_ne!(at_most(&fixture, &facts), json!(0));
    let seen = |minute: u8| RemediatedNode {
        machine: format!("{deployment}-x-{minute}"),
        time: format!("2026-11-21T13:{minute:02}:00Z"),
        ..RemediatedNode::default()
    };
    let status_of = fixture.tkc.status.get_or_insert_default();
    status_of.remediated_nodes = [1, 10, 20].map(seen).into();
    assert_eq!(at_most(&fixture, &facts), json!(0), "three within the hour");
    fixture.groups[1][0] = SILENT;
    let ill = Facts { now: facts.now, ..fixture.facts() };
    let shown = compute_status(&fixture.tkc, &ill, None).status;
    let healthy = api::conditions::find(&shown.conditions, "NodesHealthy").unwrap();
    assert_eq!(healthy.reason.as_deref(), Some("TooManyRemediations"));
    let message = healthy.message.as_deref().unwrap();
    for part in [pool.as_str(), "2026-11-21T14:01:00Z", "status.remediatedNodes", "delete the Machine"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    facts.now = "2026-11-21T14:01:00Z".parse().unwrap();
    assert_ne!(at_most(&fixture, &facts), json!(0), "by itself");
}
