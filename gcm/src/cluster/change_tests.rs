//! What a cluster comes to when something about it changes: its releases, its pools, what stands below it.

use api::conditions::{READY as READY_CONDITION, find};
use api::gcm::parts::phase;
use kube::ResourceExt;
use serde_json::json;

use super::fixtures::{Came, READY, World, nothing};
use super::milestones;
use super::plan::plan;
use super::status::status;
use super::tests::{NO_CLASS, NO_MEMORY, documents, pools, ready_message, shown};
use crate::testing::sound;

#[test]
fn an_image_that_joins_a_release_replaces_no_nodes() {
    let world = World::running(sound());
    let mut facts = world.facts();
    let first =
        crate::releases::NodeImage { name: "ob-0-photon".to_owned(), ..facts.library.fixed[0].clone() };
    facts.library.fixed.insert(0, first);
    assert_eq!(documents(&plan(&world.tkc, &facts).unwrap()), documents(&world.plan));
}

#[test]
fn a_release_that_is_taken_out_of_use_still_serves_those_who_run_it() {
    let world = World::running(sound());
    let mut tkc = world.tkc.clone();
    tkc.spec.topology.node_pools[0].replicas = Some(2);
    let deactivated = |mut facts: super::gather::Facts| {
        let mut release = super::fixtures::tkr("v1.33.1+vmware.1-fips-vkr.2");
        release.metadata.labels =
            Some([("run.tanzu.vmware.com/deactivated".to_owned(), String::new())].into());
        let catalogue = crate::releases::catalogue::Catalogue::default();
        catalogue.set("v1.33.1---vmware.1-fips-vkr.2", crate::releases::Release::of(&release).ok());
        facts.offers = catalogue.offers();
        facts.library = super::gather::Library::of(catalogue, facts.library.fixed);
        facts
    };
    let scaled = plan(&tkc, &deactivated(world.facts())).unwrap();
    assert_eq!(scaled.deployments[0].spec.replicas, Some(2));
    assert!(plan(&tkc, &deactivated(nothing())).is_err(), "a new cluster is refused it");
}

#[test]
fn a_cluster_whose_release_is_gone_is_scaled_as_before() {
    let world = World::running(pools());
    let gone = |mut facts: super::gather::Facts, catalogue: crate::releases::catalogue::Catalogue| {
        facts.offers = catalogue.offers();
        facts.library = super::gather::Library::of(catalogue, Vec::new());
        facts
    };
    let released = || {
        let catalogue = crate::releases::catalogue::Catalogue::default();
        let release = crate::releases::Release::of(&super::fixtures::tkr("v1.34.2+vmware.1-vkr.1")).ok();
        catalogue.set("v1.34.2---vmware.1-vkr.1", release);
        catalogue
    };
    let mut tkc = world.tkc.clone();
    for catalogue in [crate::releases::catalogue::Catalogue::default(), released()] {
        let facts = gone(world.facts(), catalogue.clone());
        assert_eq!(documents(&plan(&world.tkc, &facts).unwrap()), documents(&world.plan));
        tkc.spec.topology.node_pools[0].replicas = Some(1);
        assert_eq!(plan(&tkc, &facts).unwrap().deployments[0].spec.replicas, Some(1));
        assert!(plan(&tkc, &gone(nothing(), catalogue)).is_err(), "nothing says what to make it from");
    }
    // A wish that no image meets is not overheard.
    tkc.annotations_mut()
        .insert("run.tanzu.vmware.com/resolve-os-image".to_owned(), "os-name=ubuntu".to_owned());
    assert!(plan(&tkc, &world.facts()).is_err());
}

/// A release made by hand may be called what its author likes, and a version may be longer than a label.
#[test]
fn any_name_of_a_release_comes_to_a_running_cluster() {
    let text = format!("v1.33.1+{}.1", "long".repeat(20));
    let mut facts = nothing();
    let catalogue = crate::releases::catalogue::Catalogue::default();
    catalogue.set("by-hand", crate::releases::Release::of(&super::fixtures::tkr(&text)).ok());
    facts.offers = catalogue.offers();
    facts.library = super::gather::Library::of(catalogue, facts.library.fixed);
    let mut tkc = sound();
    tkc.spec.topology.control_plane.tkr = None;
    tkc.spec.distribution =
        Some(api::gcm::parts::Distribution { full_version: Some(text), ..Default::default() });
    let tkc = crate::admission::defaults::filled(&tkc, None, &facts.offers);
    let plan = plan(&tkc, &facts).unwrap();
    for document in documents(&plan) {
        let labels = document["metadata"]["labels"].as_object().unwrap();
        assert!(labels.values().all(|value| value.as_str().unwrap().len() <= 63), "{labels:?}");
    }
    let world = World { tkc, plan, ..World::running(sound()) };
    assert_eq!(shown(&world).phase.as_deref(), Some(phase::RUNNING));
}

/// Between our write and Cluster API's first look at it, the counts below are about a spec that is no more.
#[test]
fn what_was_just_written_is_not_called_settled() {
    let world = World::running(sound());
    let mut facts = world.facts();
    let mut written = (*facts.deployments[0]).clone();
    written.metadata.generation = Some(2);
    facts.took(written.into());
    let status = status(&world.tkc, &facts, None);
    assert_eq!(find(&status.conditions, READY_CONDITION).unwrap().status, "False");
    assert_ne!(status.phase.as_deref(), Some(phase::RUNNING));
}

#[test]
fn a_cluster_that_somebody_deletes_below_is_not_ready() {
    let mut world = World::running(sound());
    world.tkc.status = Some(shown(&world));
    let mut facts = world.facts();
    let mut cluster = (**facts.cluster.as_ref().unwrap()).clone();
    assert!(!super::is_cluster_deleted(&facts));
    cluster.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    facts.cluster = Some(cluster.into());
    assert!(super::is_cluster_deleted(&facts));
    let status = status(
        &world.tkc,
        &facts,
        Some(&super::error::Error::Waiting(super::describe_recreation(&world.tkc))),
    );
    assert_eq!(status.phase.as_deref(), Some(phase::UNHEALTHY));
    insta::assert_snapshot!(ready_message(&status), @"ClusterDeleted Waiting for Cluster c to go, which somebody deleted. Then it is made anew; to be rid of it, delete TanzuKubernetesCluster c");
}

#[test]
fn replicas_left_to_an_autoscaler_stay_as_they_are() {
    use super::objects::machines::handed_over;
    let mut tkc = sound();
    tkc.spec.topology.node_pools[0].replicas = Some(3);
    let world = World::running(tkc);
    let live = &world.plan.deployments[0];
    assert_eq!(handed_over(live, live), None);
    let mut tkc = world.tkc.clone();
    tkc.spec.topology.node_pools[0].replicas = None;
    let next = plan(&tkc, &world.facts()).unwrap();
    assert_eq!(next.deployments[0].spec.replicas, None);
    let document = handed_over(&next.deployments[0], live).unwrap();
    assert_eq!(document["spec"], json!({"replicas": 3}));
    let mut taken = next.deployments[0].clone();
    taken.spec.replicas = Some(5);
    assert_eq!(handed_over(&next.deployments[0], &taken), None, "told once");
}

#[test]
fn a_cause_that_gives_way_to_another_is_told() {
    let blocked = |came: Came, ready: usize| {
        let mut world = World::new(sound());
        world.initialized = true;
        world.groups = vec![vec![READY], std::iter::repeat_n(READY, ready).chain([came]).collect()];
        shown(&world)
    };
    let told = |before: &_, after: &_| {
        let told = milestones::between(before, after);
        told.into_iter().filter(|m| m.reason == "Blocked").map(|m| m.note).collect::<Vec<_>>()
    };
    let (memory, class) = (blocked(NO_MEMORY, 0), blocked(NO_CLASS, 0));
    assert_eq!(told(&memory, &class).len(), 1);
    assert!(told(&memory, &memory).is_empty());
}

#[test]
fn what_keeps_a_cluster_from_going_is_told() {
    const STUCK: Came = Came {
        vm: "deleting",
        below: Some((
            "DeletionFailed",
            "VirtualMachine ns/c-0: cannot destroy: vCenter vc.test does not answer. See that it is up",
        )),
        node: Some("True"),
    };
    let now = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let mut world = World::running(sound());
    world.groups[1] = vec![STUCK];
    world.tkc.metadata.deletion_timestamp.clone_from(&now);
    let waiting = super::error::Error::Waiting("it".to_owned());
    let mut facts = world.facts();
    let before = status(&world.tkc, &facts, Some(&waiting));
    assert!(!ready_message(&before).contains("vCenter"), "nobody deletes that machine yet");
    for machine in &mut facts.machines {
        std::sync::Arc::make_mut(machine).metadata.deletion_timestamp.clone_from(&now);
    }
    for machine in &mut facts.wcp_machines {
        std::sync::Arc::make_mut(machine).metadata.deletion_timestamp.clone_from(&now);
    }
    let after = status(&world.tkc, &facts, Some(&waiting));
    assert!(ready_message(&after).contains("DeletionFailed: VirtualMachine ns/c-0: cannot destroy: vCenter"));
    let told: Vec<_> = milestones::between(&before, &after).into_iter().map(|m| m.reason).collect();
    assert_eq!(told, ["Blocked"]);
}

#[test]
fn nodes_that_are_to_go_are_not_counted() {
    let mut world = World::running(pools());
    world.groups[1] = vec![READY, NO_CLASS];
    let mut facts = world.facts();
    let message = |facts: &super::gather::Facts| {
        let status = status(&world.tkc, facts, None);
        find(&status.conditions, "NodesHealthy").unwrap().message.clone().unwrap_or_default()
    };
    assert!(message(&facts).starts_with("3 of 4 nodes are ready"), "{}", message(&facts));
    std::sync::Arc::make_mut(&mut facts.machines[0]).metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(message(&facts).starts_with("2 of 3 nodes are ready"), "{}", message(&facts));
}
