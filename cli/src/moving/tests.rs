//! Tests for the decisions of a move.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::ProviderConfiguration;
use serde_json::json;

use super::facts::{ClusterFacts, Facts, MovedKey, MovedNamespace, MovedObject, Pause};
use super::plan::{MoveStep, moving_clusters, plan};

const NAMESPACE: &str = "dev";
/// The UID of the source, from which the copies come.
const SOURCE: &str = "1";
const OBJECTS: [(&str, &str); 4] =
    [("TanzuKubernetesCluster", "team"), ("Cluster", "team"), ("Machine", "team-a"), ("Secret", "team-ca")];

fn key((kind, name): (&str, &str)) -> MovedKey {
    MovedKey { kind: kind.to_owned(), name: name.to_owned() }
}

fn cluster() -> ClusterFacts {
    ClusterFacts {
        endpoint: Some("10.0.0.9:6443".to_owned()),
        release: Some("v1.36.3---vmware.1".to_owned()),
        is_tanzu_kubernetes_cluster: true,
        has_cluster: true,
        ..ClusterFacts::default()
    }
}

/// Returns a management cluster in which these objects of cluster `team` exist.
fn side(objects: &[(&str, &str)], cluster: ClusterFacts) -> Facts {
    let object = MovedObject { cluster: "team".to_owned(), ..MovedObject::default() };
    let facts = MovedNamespace {
        origin: Some(SOURCE.to_owned()),
        clusters: if objects.is_empty() { BTreeMap::new() } else { [("team".to_owned(), cluster)].into() },
        objects: objects.iter().map(|one| (key(*one), object.clone())).collect(),
        ..MovedNamespace::default()
    };
    let configuration = ProviderConfiguration {
        vc_pnid: "vc.example.com".to_owned(),
        datacenter: "datacenter-2".to_owned(),
        ..ProviderConfiguration::default()
    };
    Facts {
        uid: SOURCE.to_owned(),
        kinds: [("Machine".to_owned(), json!({"properties": {"spec": {"properties": {"a": {}}}}}))].into(),
        configuration: Some(configuration),
        stack_id: Some("s".to_owned()),
        releases: ["v1.36.3---vmware.1".to_owned()].into(),
        namespaces: [(NAMESPACE.to_owned(), facts)].into(),
    }
}

fn copy() -> ClusterFacts {
    ClusterFacts { pause: Pause::ByMove, is_made_elsewhere: true, ..cluster() }
}

/// Returns the next step, and the problems.
fn decide(from: &Facts, to: &Facts) -> (Option<MoveStep>, Vec<String>) {
    let mut plan = plan(from, to, &BTreeSet::from([NAMESPACE.to_owned()]), false);
    (plan.steps.remove(NAMESPACE), plan.problems)
}

fn marked(mut side: Facts, objects: &[(&str, &str)]) -> Facts {
    let facts = side.namespaces.get_mut(NAMESPACE).unwrap();
    for object in objects {
        facts.objects.get_mut(&key(*object)).unwrap().is_marked = true;
    }
    side
}

#[test]
fn a_move_goes_on_where_an_earlier_one_ended() {
    let paused = || ClusterFacts { pause: Pause::ByMove, ..cluster() };
    let begun = side(&OBJECTS, cluster());
    assert_eq!(decide(&begun, &side(&[], cluster())), (Some(MoveStep::Move), vec![]));
    let before_the_first_copy = side(&OBJECTS, paused());
    assert_eq!(decide(&before_the_first_copy, &side(&[], cluster())), (Some(MoveStep::Move), vec![]));
    for number in 1..=OBJECTS.len() {
        let first = &OBJECTS[..number];
        let has_cluster = number > 1;
        let there = side(first, ClusterFacts { has_cluster, ..copy() });
        let copies = first.iter().map(|object| key(*object)).collect();
        let expected = (Some(MoveStep::Restart { copies }), vec![]);
        assert_eq!(decide(&side(&OBJECTS, paused()), &there), expected, "{first:?}");
    }
    let all = side(&OBJECTS, copy());
    for left in (1..=OBJECTS.len()).rev() {
        let objects = &OBJECTS[..left];
        let left = side(objects, ClusterFacts { has_cluster: left > 1, ..paused() });
        let originals: BTreeSet<_> = objects.iter().map(|object| key(*object)).collect();
        let complete = (Some(MoveStep::Complete { originals }), vec![]);
        assert_eq!(
            decide(&marked(left.clone(), &objects[objects.len() - 1..]), &all),
            complete,
            "{objects:?}"
        );
        if objects.len() < OBJECTS.len() {
            assert_eq!(decide(&left, &all), complete, "{objects:?}");
        }
    }
    assert_eq!(decide(&side(&[], cluster()), &all), (Some(MoveStep::Resume), vec![]));
    assert_eq!(decide(&side(&[], cluster()), &side(&OBJECTS, cluster())), (None, vec![]));
}

#[test]
fn copies_whose_originals_are_gone_are_resumed_with_the_others() {
    let cluster = |name: &str, pause| (name.to_owned(), ClusterFacts { pause, ..cluster() });
    let clusters = |clusters: Vec<_>| MovedNamespace {
        origin: Some(SOURCE.to_owned()),
        clusters: clusters.into_iter().collect(),
        ..MovedNamespace::default()
    };
    let here = clusters(vec![cluster("left", Pause::ByMove)]);
    let there = clusters(vec![
        cluster("gone", Pause::ByMove),
        cluster("left", Pause::ByMove),
        cluster("of-the-target", Pause::None),
        cluster("paused-by-a-user", Pause::ByOthers),
    ]);
    assert_eq!(moving_clusters(&here, &there, SOURCE).into_keys().collect::<Vec<_>>(), ["gone", "left"]);
    assert_eq!(moving_clusters(&here, &there, "2").into_keys().collect::<Vec<_>>(), ["left"]);
}

#[test]
fn copies_from_a_third_management_cluster_are_left_alone() {
    let copies = side(&OBJECTS, copy());
    let from = Facts { uid: "2".to_owned(), ..side(&[], cluster()) };
    assert_eq!(decide(&from, &copies), (None, vec![]));
    assert_eq!(decide(&side(&[], cluster()), &copies), (Some(MoveStep::Resume), vec![]));
}

#[test]
fn nothing_is_removed_while_both_sides_have_objects_of_their_own() {
    let from = side(&OBJECTS[..3], ClusterFacts { pause: Pause::ByMove, ..cluster() });
    let to = side(&[OBJECTS[0], OBJECTS[1], OBJECTS[3]], copy());
    let (step, problems) = decide(&from, &to);
    assert_eq!(step, None);
    assert!(problems[0].contains("Only in the source: Machine team-a; only in the target: Secret team-ca"));
}

#[test]
fn a_machine_set_of_a_resumed_source_is_removed_with_the_originals() {
    let copies = [OBJECTS[0], OBJECTS[1], ("KubeadmControlPlane", "team-cp"), OBJECTS[2]];
    let decide_with = |created: (&str, &str)| {
        let originals = [OBJECTS[0], OBJECTS[1], created];
        decide(&side(&originals, cluster()), &side(&copies, copy()))
    };
    let originals = [OBJECTS[0], OBJECTS[1], ("MachineSet", "team-b")].map(key).into();
    assert_eq!(decide_with(("MachineSet", "team-b")), (Some(MoveStep::Complete { originals }), vec![]));
    let (step, problems) = decide_with(("Machine", "team-c"));
    assert_eq!((step, problems.len()), (None, 1), "a Machine may have a VM");
}

#[test]
fn what_keeps_a_cluster_from_moving_is_named_with_the_remedy() {
    let ready = || side(&OBJECTS, cluster());
    let problem = |change: &dyn Fn(&mut Facts, &mut Facts)| {
        let (mut from, mut to) = (ready(), side(&[], cluster()));
        change(&mut from, &mut to);
        let (_, problems) = decide(&from, &to);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    };
    let namespace = |facts: &mut Facts| -> MovedNamespace { facts.namespaces.remove(NAMESPACE).unwrap() };
    let changed = |change: &dyn Fn(&mut MovedNamespace)| {
        problem(&|from, _| {
            let mut facts = namespace(from);
            change(&mut facts);
            from.namespaces.insert(NAMESPACE.to_owned(), facts);
        })
    };
    let found = [
        changed(&|facts| facts.clusters.get_mut("team").unwrap().pause = Pause::ByOthers),
        changed(&|facts| {
            let machine = facts.objects.get_mut(&key(OBJECTS[2])).unwrap();
            machine.obstacle = Some("has no node yet. Wait until it has, or delete it".to_owned());
        }),
        changed(&|facts| facts.claims = ["data-0".to_owned()].into()),
        problem(&|_, to| to.releases.clear()),
        problem(&|_, to| to.kinds.clear()),
        problem(&|_, to| {
            to.kinds.insert("Machine".to_owned(), json!({"properties": {"spec": {"properties": {}}}}));
        }),
        problem(&|_, to| to.configuration = None),
        problem(&|_, to| to.configuration.as_mut().unwrap().vc_pnid = "other.example.com".to_owned()),
        problem(&|_, to| to.stack_id = None),
        problem(&|_, to| {
            *to = side(&OBJECTS, cluster());
        }),
    ];
    insta::assert_snapshot!(found.join("\n"));
}
