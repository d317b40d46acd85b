use std::sync::Arc;

use api::conditions::{READY, UNKNOWN};
use api::gcm::parts::{Settings, StorageSettings, phase};

use super::*;
use crate::addons::survey::ProgramPresence;
use crate::cluster::fixtures::ClusterFixture;
use crate::cluster::status::compute_status;
use crate::testing::sound;

/// Returns a running cluster with a storage driver. The cluster's spec names these classes, and the namespace provides `gold`.
fn naming(classes: &[&str]) -> (ClusterFixture, Facts) {
    let mut fixture = ClusterFixture::running(sound());
    let classes = classes.iter().map(|name| (*name).to_owned()).collect();
    let settings = fixture.tkc.spec.settings.get_or_insert_with(Settings::default);
    settings.storage = Some(StorageSettings { classes: Some(classes), default_class: None });
    let mut facts = fixture.facts();
    facts.namespace.classes = [("gold".to_owned(), None)].into();
    facts.synced = Some(Arc::new(reports(&fixture.tkc, &facts, &AddonState::Applied)));
    let survey = Arc::make_mut(facts.survey.as_mut().unwrap());
    survey.driver = ProgramPresence::Running;
    survey.tokens.iter_mut().for_each(|token| token.program = ProgramPresence::Running);
    (fixture, facts)
}

/// Returns reports about the current objects, with the state `classes` for the storage classes.
fn reports(tkc: &TanzuKubernetesCluster, facts: &Facts, classes: &AddonState) -> Vec<AddonReport> {
    let report = |slot: &str, wanted: &WantedObjects, state: AddonState| AddonReport {
        name: slot.to_owned(),
        type_: None,
        version: Some(wanted.objects.version().to_owned()),
        state,
    };
    vec![
        report(STORAGE_CLASSES, &sync::storage_classes(tkc, &facts.namespace, None), classes.clone()),
        report(ROLE_BINDINGS, &sync::role_bindings(tkc, &facts.namespace), AddonState::Applied),
    ]
}

/// Returns status, reason and message of a condition, and the status of the summary.
fn shown(fixture: &ClusterFixture, facts: &Facts, type_: &str) -> (String, String, String, String) {
    let status = compute_status(&fixture.tkc, facts, None).status;
    let condition = find(&status.conditions, type_).unwrap();
    let ready = find(&status.conditions, READY).unwrap().status.to_string();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (condition.status.to_string(), text(&condition.reason), text(&condition.message), ready)
}

#[test]
fn a_class_that_is_not_there_is_named_with_what_to_do() {
    let (fixture, facts) = naming(&["gold", "lead"]);
    let (is, reason, message, ready) = shown(&fixture, &facts, "StorageClassSynced");
    assert_eq!((is.as_str(), reason.as_str(), ready.as_str()), ("False", "StorageClassSyncFailed", "False"));
    for part in
        ["StorageClass lead", "namespace ns", "lead.storageclass.storage.k8s.io/requests.storage", "has gold"]
    {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    let report = compute_status(&fixture.tkc, &facts, None);
    assert_eq!(report.cause.unwrap().object, "StorageClass lead");
    assert_eq!(find(&report.status.conditions, READY).unwrap().message.as_deref(), Some(message.as_str()));
}

#[test]
fn what_the_guest_refuses_is_repeated_and_what_takes_a_moment_keeps_no_cluster_from_being_ready() {
    let (fixture, mut facts) = naming(&["gold"]);
    let why = || "StorageClass gold: the object exists".to_owned();
    for (state, expected, ready) in [
        (AddonState::Applied, "True", "True"),
        (AddonState::Pending(why()), UNKNOWN, "True"),
        (AddonState::Failed(why()), "False", "False"),
    ] {
        facts.synced = Some(Arc::new(reports(&fixture.tkc, &facts, &state)));
        let (is, _, message, summary) = shown(&fixture, &facts, "StorageClassSynced");
        assert_eq!((is.as_str(), summary.as_str()), (expected, ready), "{state:?}");
        assert_eq!(message.contains("the object exists"), state != AddonState::Applied, "{message}");
        assert_eq!(shown(&fixture, &facts, "RoleBindingSynced").0, "True");
    }
}

/// A report about an older version doesn't apply to the current one.
#[test]
fn an_old_report_does_not_count() {
    let (fixture, mut facts) = naming(&["gold"]);
    facts.namespace.classes.clear();
    let mut changed = fixture.tkc.clone();
    changed.spec.settings.as_mut().unwrap().storage = None;
    let fixture = ClusterFixture { tkc: changed, ..fixture };
    let (is, reason, _, ready) = shown(&fixture, &facts, "StorageClassSynced");
    assert_eq!((is.as_str(), reason.as_str(), ready.as_str()), (UNKNOWN, "StorageClassSyncing", "True"));
}

#[test]
fn while_nobody_looked_what_was_so_is_so() {
    let (mut fixture, mut facts) = naming(&["gold"]);
    facts.synced = None;
    assert_eq!(shown(&fixture, &facts, "StorageClassSynced").0, UNKNOWN);
    let status = |condition: Condition| {
        let conditions = vec![condition];
        Some(api::gcm::TanzuKubernetesClusterStatus {
            conditions,
            phase: Some(phase::RUNNING.to_owned()),
            ..Default::default()
        })
    };
    fixture.tkc.status = status(Condition::is_true("StorageClassSynced"));
    assert_eq!(shown(&fixture, &facts, "StorageClassSynced").0, "True");
    fixture.tkc.status =
        status(Condition::is_false("StorageClassSynced", WARNING, "StorageClassSyncFailed", "lead"));
    assert_eq!(
        shown(&fixture, &facts, "StorageClassSynced").0,
        "False",
        "what failed is so until somebody has looked"
    );
}

#[test]
fn the_way_to_the_management_cluster_is_a_condition_where_anybody_knows_it() {
    let (fixture, mut facts) = naming(&["gold"]);
    let there = |facts: &Facts| {
        find(&compute_status(&fixture.tkc, facts, None).status.conditions, "ServiceDiscoveryReady").is_some()
    };
    assert!(!there(&facts));
    facts.namespace.supervisor = Some(Ok("10.0.0.1".parse().unwrap()));
    let (is, reason, _, ready) = shown(&fixture, &facts, "ServiceDiscoveryReady");
    assert_eq!(
        (is.as_str(), reason.as_str(), ready.as_str()),
        (UNKNOWN, "ServiceDiscoveryReconciling", "True")
    );
    facts.namespace.supervisor =
        Some(Err(crate::sync::wanted::ObjectProblem::new("ConfigMap a/b", "it is a name")));
    let (is, reason, message, ready) = shown(&fixture, &facts, "ServiceDiscoveryReady");
    assert_eq!((is.as_str(), ready.as_str()), ("False", "False"));
    assert_eq!(reason, "SupervisorHeadlessServiceSetupFailed");
    assert!(message.contains("ConfigMap a/b") && message.contains("it is a name"), "{message}");
}
