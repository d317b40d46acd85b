//! Tests changes to a cluster's releases, pools and objects.

use api::conditions::{READY as READY_CONDITION, find};
use api::gcm::parts::phase;
use kube::ResourceExt;
use serde_json::json;

use super::{NO_CLASS, NO_MEMORY, documents, pools, ready_message, shown};
use crate::cluster::applied::Applied;
use crate::cluster::facts::Facts;
use crate::cluster::fixtures::{
    ClusterFixture, MachineFixture, READY, nothing, plan, release_cache, tkr, with_releases,
};
use crate::cluster::status::milestones;
use crate::cluster::status::{StatusWithCause, compute_status};
use crate::testing::sound;

#[test]
fn an_image_that_joins_a_release_replaces_no_nodes() {
    let fixture = ClusterFixture::running(sound());
    let mut facts = fixture.facts();
    let first =
        crate::release::ReleaseImage { name: "ob-0-photon".to_owned(), ..facts.releases.fixed[0].clone() };
    facts.releases.fixed.insert(0, first);
    assert_eq!(documents(&plan(&fixture.tkc, &facts).unwrap()), documents(&fixture.plan));
}

#[test]
fn a_release_that_is_taken_out_of_use_still_serves_those_who_run_it() {
    let fixture = ClusterFixture::running(sound());
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.node_pools[0].replicas = Some(2);
    let deactivated = |facts: Facts| {
        let mut release = tkr("v1.33.1+vmware.1-fips-vkr.2");
        release.metadata.labels =
            Some([("run.tanzu.vmware.com/deactivated".to_owned(), String::new())].into());
        let images = facts.releases.fixed.clone();
        with_releases(facts, release_cache([release]), images)
    };
    let scaled = plan(&tkc, &deactivated(fixture.facts())).unwrap();
    assert_eq!(scaled.deployments[0].spec.replicas, Some(2));
    assert!(plan(&tkc, &deactivated(nothing())).is_err(), "a new cluster is refused it");
}

#[test]
fn a_cluster_whose_release_is_gone_is_scaled_as_before() {
    let fixture = ClusterFixture::running(pools());
    let mut tkc = fixture.tkc.clone();
    for releases in [release_cache([]), release_cache([tkr("v1.34.2+vmware.1-vkr.1")])] {
        let facts = with_releases(fixture.facts(), releases.clone(), Vec::new());
        assert_eq!(documents(&plan(&fixture.tkc, &facts).unwrap()), documents(&fixture.plan));
        tkc.spec.topology.node_pools[0].replicas = Some(1);
        assert_eq!(plan(&tkc, &facts).unwrap().deployments[0].spec.replicas, Some(1));
        let new = with_releases(nothing(), releases, Vec::new());
        assert!(plan(&tkc, &new).is_err(), "nothing says what to make it from");
    }
    // A query that doesn't match an image is an error.
    tkc.annotations_mut()
        .insert("run.tanzu.vmware.com/resolve-os-image".to_owned(), "os-name=ubuntu".to_owned());
    assert!(plan(&tkc, &fixture.facts()).is_err());
}

/// A hand-written release can have any name, and a version can be longer than a label value.
#[test]
fn any_name_of_a_release_comes_to_a_running_cluster() {
    let text = format!("v1.33.1+{}.1", "long".repeat(20));
    let mut release = tkr(&text);
    release.metadata.name = Some("by-hand".to_owned());
    let images = nothing().releases.fixed;
    let facts = with_releases(nothing(), release_cache([release]), images);
    let mut tkc = sound();
    tkc.spec.topology.control_plane.tkr = None;
    tkc.spec.distribution =
        Some(api::gcm::parts::Distribution { full_version: Some(text), ..Default::default() });
    let tkc = crate::admission::defaults::with_defaults(&tkc, None, &facts.available_releases);
    let plan = plan(&tkc, &facts).unwrap();
    for document in documents(&plan) {
        let labels = document["metadata"]["labels"].as_object().unwrap();
        assert!(labels.values().all(|value| value.as_str().unwrap().len() <= 63), "{labels:?}");
    }
    let fixture = ClusterFixture { tkc, plan, ..ClusterFixture::running(sound()) };
    assert_eq!(shown(&fixture).phase.as_deref(), Some(phase::RUNNING));
}

/// Such a volume may have been stored while admission was switched off.
#[test]
fn planning_refuses_volumes_that_hide_folders_of_the_node_image() {
    let fixture = ClusterFixture::running(pools());
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.control_plane.volumes.as_mut().unwrap()[0].mount_path = "/etc".to_owned();
    let refused = plan(&tkc, &fixture.facts()).unwrap_err().to_string();
    assert!(refused.contains("spec.topology.controlPlane.volumes[0].mountPath"), "{refused}");
}

/// Between gcm's write and Cluster API's next reconcile, the counts still refer to the old spec.
#[test]
fn what_was_just_written_is_not_called_settled() {
    let fixture = ClusterFixture::running(sound());
    let facts = fixture.facts();
    let mut written = (*facts.deployments[0]).clone();
    written.metadata.generation = Some(2);
    let applied = Applied { deployments: vec![written.into()], ..Applied::default() };
    let status = compute_status(&fixture.tkc, &applied.over(facts), None).status;
    assert_eq!(find(&status.conditions, READY_CONDITION).unwrap().status, "False");
    assert_ne!(status.phase.as_deref(), Some(phase::RUNNING));
}

#[test]
fn a_cluster_that_somebody_deletes_below_is_not_ready() {
    let mut fixture = ClusterFixture::running(sound());
    fixture.tkc.status = Some(shown(&fixture));
    let mut facts = fixture.facts();
    assert!(!facts.is_cluster_deleted());
    std::sync::Arc::make_mut(facts.cluster.as_mut().unwrap()).metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(facts.is_cluster_deleted());
    let waiting = crate::cluster::error::Error::Waiting(crate::cluster::reconcile_plan::describe_recreation(
        &fixture.tkc,
    ));
    let status = compute_status(&fixture.tkc, &facts, Some(&waiting)).status;
    assert_eq!(status.phase.as_deref(), Some(phase::UNHEALTHY));
    insta::assert_snapshot!(ready_message(&status), @"ClusterDeleted Cluster c was deleted directly. It will be recreated when its deletion is complete. To remove it for good, delete TanzuKubernetesCluster c");
}

#[test]
fn a_bundle_that_the_cluster_does_not_get_keeps_it_from_being_ready() {
    let fixture = ClusterFixture::running(sound());
    let mut facts = fixture.facts();
    facts.bundles = vec![std::sync::Arc::new(crate::cluster::fixtures::from(json!({"metadata": {
        "name": "extra", "namespace": "ns", "labels": {"tkg.tanzu.vmware.com/addon-name": "cni"},
    }})))];
    let conditions = compute_status(&fixture.tkc, &facts, None).status.conditions;
    let addons = find(&conditions, "AddonsReady").unwrap();
    assert_eq!(addons.reason.as_deref(), Some("AddonsReconciliationFailed"));
    let message = addons.message.as_deref().unwrap();
    assert!(message.starts_with("1 of 2 add-ons are applied and healthy: ConfigMap extra: "), "{message}");
    assert_eq!(find(&conditions, READY_CONDITION).unwrap().status, "False");
}

#[test]
fn replicas_left_to_an_autoscaler_stay_as_they_are() {
    use crate::cluster::node_groups::machines::hand_over_replicas;
    let mut tkc = sound();
    tkc.spec.topology.node_pools[0].replicas = Some(3);
    let fixture = ClusterFixture::running(tkc);
    let mut live = fixture.plan.deployments[0].clone();
    live.metadata.resource_version = Some("7".to_owned());
    let live = &live;
    assert_eq!(hand_over_replicas(live, live), None);
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.node_pools[0].replicas = None;
    let next = plan(&tkc, &fixture.facts()).unwrap();
    assert_eq!(next.deployments[0].spec.replicas, None);
    let document = hand_over_replicas(&next.deployments[0], live).unwrap();
    assert_eq!(document["spec"], json!({"replicas": 3}));
    assert_eq!(document["metadata"]["resourceVersion"], "7", "whoever decided meanwhile is not overruled");
    let mut taken = next.deployments[0].clone();
    taken.spec.replicas = Some(5);
    assert_eq!(hand_over_replicas(&next.deployments[0], &taken), None, "handed over once");
}

#[test]
fn one_unhealthy_machine_is_replaced_and_many_are_not() {
    let triggers = |replicas: Option<i32>, live: Option<i32>| {
        let mut tkc = sound();
        tkc.spec.topology.node_pools[0].replicas = replicas;
        let fixture = ClusterFixture::running(tkc);
        let mut facts = fixture.facts();
        for deployment in &mut facts.deployments {
            std::sync::Arc::make_mut(deployment).spec.replicas = live;
        }
        let plan = plan(&fixture.tkc, &facts).unwrap();
        let check = &plan.checks[1].spec.remediation.as_ref().unwrap().trigger_if;
        serde_json::to_value(check.as_ref().unwrap().unhealthy_less_than_or_equal_to.clone()).unwrap()
    };
    for (replicas, live, expected) in [
        (Some(1), None, json!(1)),
        (Some(2), Some(5), json!(1)),
        (Some(3), None, json!("40%")),
        (Some(0), None, json!("40%")),
        (None, Some(2), json!(1)),
        (None, Some(10), json!("40%")),
        (None, None, json!("40%")),
    ] {
        assert_eq!(triggers(replicas, live), expected, "{replicas:?} {live:?}");
    }
}

#[test]
fn a_cause_that_gives_way_to_another_is_reported() {
    let blocked = |state: MachineFixture, ready: usize| {
        let mut fixture = ClusterFixture::new(sound());
        fixture.initialized = true;
        fixture.groups = vec![vec![READY], std::iter::repeat_n(READY, ready).chain([state]).collect()];
        compute_status(&fixture.tkc, &fixture.facts(), None)
    };
    let blocked_notes = |before: &StatusWithCause, after: &StatusWithCause| {
        let events = milestones::list_milestones(&before.status, &after.status, after.cause.as_ref());
        events.into_iter().filter(|m| m.reason == "Blocked").map(|m| m.note).collect::<Vec<_>>()
    };
    let (memory, class) = (blocked(NO_MEMORY, 0), blocked(NO_CLASS, 0));
    assert_eq!(blocked_notes(&memory, &class).len(), 1);
    assert!(blocked_notes(&memory, &memory).is_empty());
}

#[test]
fn a_copy_whose_cluster_is_still_to_come_is_not_reported_as_being_created() {
    let tkc = sound();
    let is_reported = |error: Option<&crate::cluster::error::Error>| {
        let after = compute_status(&tkc, &nothing(), error).status;
        let events =
            milestones::list_milestones(&api::gcm::TanzuKubernetesClusterStatus::default(), &after, None);
        events.iter().any(|event| event.reason == "Creating")
    };
    assert!(is_reported(None));
    assert!(!is_reported(Some(&crate::cluster::error::Error::Arriving("it".to_owned()))));
}

#[test]
fn what_keeps_a_cluster_from_going_is_reported() {
    const STUCK: MachineFixture = MachineFixture {
        vm: "deleting",
        below: Some((
            "DeletionFailed",
            "VirtualMachine ns/c-0: cannot destroy: vCenter vc.test does not answer. See that it is up",
        )),
        node: Some("True"),
    };
    let now = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let mut fixture = ClusterFixture::running(sound());
    fixture.groups[1] = vec![STUCK];
    fixture.tkc.metadata.deletion_timestamp.clone_from(&now);
    let waiting = crate::cluster::error::Error::Waiting("it".to_owned());
    let mut facts = fixture.facts();
    let before = compute_status(&fixture.tkc, &facts, Some(&waiting)).status;
    assert!(!ready_message(&before).contains("vCenter"), "nobody deletes that machine yet");
    for machine in &mut facts.machines {
        std::sync::Arc::make_mut(machine).metadata.deletion_timestamp.clone_from(&now);
    }
    for machine in &mut facts.wcp_machines {
        std::sync::Arc::make_mut(machine).metadata.deletion_timestamp.clone_from(&now);
    }
    let StatusWithCause { status: after, cause } = compute_status(&fixture.tkc, &facts, Some(&waiting));
    assert!(ready_message(&after).contains("DeletionFailed: VirtualMachine ns/c-0: cannot destroy: vCenter"));
    let notes: Vec<_> =
        milestones::list_milestones(&before, &after, cause.as_ref()).into_iter().map(|m| m.reason).collect();
    assert_eq!(notes, ["Blocked"]);
}

#[test]
fn nodes_that_are_to_go_are_not_counted() {
    let mut fixture = ClusterFixture::running(pools());
    fixture.groups[1] = vec![READY, NO_CLASS];
    let mut facts = fixture.facts();
    let message = |facts: &Facts| {
        let status = compute_status(&fixture.tkc, facts, None).status;
        find(&status.conditions, "NodesHealthy").unwrap().message.clone().unwrap_or_default()
    };
    assert!(message(&facts).starts_with("3 of 4 nodes are ready"), "{}", message(&facts));
    std::sync::Arc::make_mut(&mut facts.machines[0]).metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(message(&facts).starts_with("2 of 3 nodes are ready"), "{}", message(&facts));
}
