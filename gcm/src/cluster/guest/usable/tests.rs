use std::fmt::Write as _;
use std::sync::Arc;

use api::conditions::{FALSE, READY, TRUE, UNKNOWN, WARNING};
use api::gcm::TanzuKubernetesClusterStatus;
use api::gcm::parts::{Settings, StorageSettings};
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::{Value, json};

use super::*;
use crate::cluster::fixtures::{ClusterFixture, condition, from};
use crate::cluster::status::compute_status;
use crate::testing::sound;

const TYPES: [&str; 3] =
    [words::STORAGE_CLASS_SYNCED, words::PROVIDER_SERVICE_ACCOUNTS_READY, words::ROLE_BINDING_SYNCED];

/// Returns a cluster with two storage classes, an account with a token, and users with edit permissions in its namespace.
fn cluster() -> (ClusterFixture, Facts) {
    let fixture = ClusterFixture::running(sound());
    let mut facts = fixture.facts();
    facts.namespace.classes = [("gold".to_owned(), None)].into();
    let subjects = json!([
        {"kind": "User", "name": "sso:ann@corp"}, {"kind": "User", "name": "sso:bob@corp"},
        {"kind": "Group", "name": "sso:devs@corp"}, {"kind": "ServiceAccount", "name": "robot", "namespace": "ns"},
    ]);
    bind(&mut facts, &subjects);
    let wcp_cluster = Arc::make_mut(facts.wcp_cluster.as_mut().unwrap());
    let ready = condition(words::PROVIDER_SERVICE_ACCOUNTS_READY, "True", "Ready", "");
    wcp_cluster.status.as_mut().unwrap().conditions.push(from(ready));
    apply(&fixture, &mut facts);
    (fixture, facts)
}

fn bind(facts: &mut Facts, subjects: &Value) {
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "b", "namespace": "ns"}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    }))
    .unwrap();
    facts.namespace.role_bindings = vec![Arc::new(binding)];
}

/// Marks all objects from the namespace as applied.
fn apply(fixture: &ClusterFixture, facts: &mut Facts) {
    facts.synced = Some(Arc::new(fixture.synced(facts)));
}

fn survey(facts: &mut Facts) -> &mut GuestSurvey {
    Arc::make_mut(facts.survey.as_mut().unwrap())
}

/// Makes the paravirtual driver run on a node.
fn run_driver(facts: &mut Facts) {
    survey(facts).driver = ProgramPresence::Running;
    *driver_token_user(facts) = ProgramPresence::Running;
}

fn driver_token_user(facts: &mut Facts) -> &mut ProgramPresence {
    let of_driver = |token: &&mut TokenUse| token.secret.name == STORAGE_DRIVER_SECRET;
    &mut survey(facts).tokens.iter_mut().find(of_driver).unwrap().program
}

fn unassign_classes(fixture: &ClusterFixture, facts: &mut Facts) {
    facts.namespace.classes.clear();
    apply(fixture, facts);
}

/// Adds the bundle of another storage driver, which contains its own storage classes.
fn bring_classes(fixture: &ClusterFixture, facts: &mut Facts) {
    add_driver(facts, AddonState::Applied);
    annotate_bundle(fixture, facts, "csi", "none");
}

fn annotate_bundle(fixture: &ClusterFixture, facts: &mut Facts, type_: &str, classes: &str) {
    facts.bundles = vec![Arc::new(from(json!({"metadata": {
        "name": "vsphere-csi", "namespace": "ns", "labels": {"tkg.tanzu.vmware.com/addon-name": "vsphere-csi"},
        "annotations": {"tkg.tanzu.vmware.com/addon-type": type_, "run.tanzu.vmware.com/storage-classes": classes},
    }})))];
    apply(fixture, facts);
}

fn ask(fixture: &mut ClusterFixture, facts: &mut Facts) {
    let settings = fixture.tkc.spec.settings.get_or_insert_with(Settings::default);
    settings.storage = Some(StorageSettings { classes: Some(vec!["gold".into()]), default_class: None });
    apply(fixture, facts);
}

fn add_driver(facts: &mut Facts, state: AddonState) {
    add(facts, AddonType::Csi, state);
}

fn add(facts: &mut Facts, type_: AddonType, state: AddonState) {
    let report = AddonReport { name: "added".to_owned(), type_: Some(type_), version: None, state };
    Arc::make_mut(facts.addons.as_mut().unwrap()).push(report);
}

/// Returns status, severity and reason of a condition, and the status of the summary.
fn shown(fixture: &ClusterFixture, facts: &Facts, type_: &str) -> String {
    let conditions = compute_status(&fixture.tkc, facts, None).status.conditions;
    let condition = find(&conditions, type_).unwrap();
    let word = |word: &Option<String>| word.clone().unwrap_or_default();
    let ready = &find(&conditions, READY).unwrap().status;
    let of = [
        condition.status.to_string(),
        word(&condition.severity),
        word(&condition.reason),
        format!("Ready {ready}"),
    ];
    of.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

type Change = fn(&mut ClusterFixture, &mut Facts);
/// A name, a change to the facts, and the expected result from `shown`.
type Case<'a> = (&'a str, &'a dyn Fn(&mut Facts), &'a str);

// Results from `shown`.
const MET: &str = "True Ready True";
const UNASKED: &str = "False Info NoStorageDriver Ready True";
const LACKING: &str = "False Warning StorageDriverNotFound Ready False";
const UNFIT: &str = "False Warning StorageClassSyncFailed Ready False";
const UNKNOWN_STORAGE: &str = "Unknown StorageClassSyncing Ready True";
const UNUSED: &str = "False Info ProviderServiceAccountsUnused Ready True";
const UNKNOWN_USE: &str = "Unknown ProviderServiceAccountsReconciling Ready True";
const NO_LOGIN: &str = "False Info NoAuthenticator Ready True";

#[test]
fn classes_count_only_with_their_driver() {
    let cases: [(&str, Change, &str); 12] = [
        ("nothing asked for", |_, _| {}, UNASKED),
        ("the driver is there although nothing asks for it", |_, facts| run_driver(facts), MET),
        ("no class, no driver", |fixture, facts| unassign_classes(fixture, facts), UNASKED),
        (
            "no class, a driver",
            |fixture, facts| {
                unassign_classes(fixture, facts);
                survey(facts).driver = ProgramPresence::Running;
            },
            MET,
        ),
        (
            "empty settings ask for nothing",
            |fixture, _| {
                fixture.tkc.spec.settings.as_mut().unwrap().storage =
                    Some(StorageSettings { classes: Some(Vec::new()), default_class: Some(String::new()) });
            },
            UNASKED,
        ),
        ("classes in the spec", |fixture, facts| ask(fixture, facts), LACKING),
        (
            "classes in the spec, and no node has the driver",
            |fixture, facts| {
                ask(fixture, facts);
                survey(facts).driver = ProgramPresence::Installed;
            },
            LACKING,
        ),
        (
            "classes in the spec and a driver",
            |fixture, facts| {
                ask(fixture, facts);
                run_driver(facts);
            },
            MET,
        ),
        ("a bundle", |_, facts| add_driver(facts, AddonState::Applied), LACKING),
        ("a bundle that another tool applies", |_, facts| add_driver(facts, AddonState::Unmanaged), LACKING),
        (
            "a bundle of another type",
            |_, facts| add(facts, AddonType::MetricsServer, AddonState::Applied),
            UNASKED,
        ),
        (
            "a guest that refuses the question",
            |fixture, facts| {
                ask(fixture, facts);
                survey(facts).driver = ProgramPresence::Refused("no".into());
            },
            UNKNOWN_STORAGE,
        ),
    ];
    check_storage(&cases);
}

#[test]
fn another_driver_needs_classes_of_its_own() {
    let cases: [(&str, Change, &str); 7] = [
        (
            "a guest that refuses to show the Pods of the driver",
            |_, facts| {
                survey(facts).driver = ProgramPresence::Running;
                *driver_token_user(facts) = ProgramPresence::Refused("no".into());
            },
            UNKNOWN_STORAGE,
        ),
        (
            "an annotation that means nothing",
            |fixture, facts| {
                annotate_bundle(fixture, facts, "csi", "gold");
                run_driver(facts);
            },
            UNFIT,
        ),
        (
            "the annotation on the bundle of something else",
            |fixture, facts| {
                annotate_bundle(fixture, facts, "metricsserver", "none");
                run_driver(facts);
            },
            UNFIT,
        ),
        (
            "another driver than the classes are for",
            |_, facts| survey(facts).driver = ProgramPresence::Running,
            UNASKED,
        ),
        (
            "another driver as a bundle",
            |_, facts| {
                add_driver(facts, AddonState::Applied);
                survey(facts).driver = ProgramPresence::Running;
            },
            LACKING,
        ),
        (
            "another driver with classes of its own",
            |fixture, facts| {
                bring_classes(fixture, facts);
                survey(facts).driver = ProgramPresence::Running;
            },
            MET,
        ),
        (
            "another driver with classes of its own, and classes in the spec",
            |fixture, facts| {
                bring_classes(fixture, facts);
                ask(fixture, facts);
                survey(facts).driver = ProgramPresence::Running;
            },
            UNFIT,
        ),
    ];
    check_storage(&cases);
}

fn check_storage(cases: &[(&str, Change, &str)]) {
    for (name, change, expected) in cases {
        let (mut fixture, mut facts) = cluster();
        change(&mut fixture, &mut facts);
        assert_eq!(shown(&fixture, &facts, words::STORAGE_CLASS_SYNCED), *expected, "{name}");
    }
}

#[test]
fn accounts_count_only_with_a_program_that_uses_them() {
    let use_all = |facts: &mut Facts| {
        survey(facts).tokens.iter_mut().for_each(|token| token.program = ProgramPresence::Running);
    };
    let cases: [Case<'_>; 8] = [
        ("no program", &|_| {}, UNUSED),
        ("one of two", &|facts| survey(facts).tokens[0].program = ProgramPresence::Running, UNUSED),
        ("both", &use_all, MET),
        (
            "an add-on needs it",
            &|facts| survey(facts).tokens[1].is_required = true,
            "False Warning ProviderServiceAccountUserNotFound Ready False",
        ),
        (
            "an add-on needs it, and it runs",
            &|facts| {
                use_all(facts);
                survey(facts).tokens[1].is_required = true;
            },
            MET,
        ),
        // A driver that connects to vCenter itself doesn't need a token for the management cluster.
        (
            "a driver that does not need it",
            &|facts| {
                survey(facts).driver = ProgramPresence::Running;
                add_driver(facts, AddonState::Applied);
            },
            "False Info ProviderServiceAccountsUnused Ready False",
        ),
        (
            "a guest that refuses the question",
            &|facts| survey(facts).tokens[0].program = ProgramPresence::Refused("no".into()),
            UNKNOWN_USE,
        ),
        ("no survey yet", &|facts| facts.survey = None, UNKNOWN_USE),
    ];
    for (name, change, expected) in cases {
        let (fixture, mut facts) = cluster();
        change(&mut facts);
        assert_eq!(shown(&fixture, &facts, words::PROVIDER_SERVICE_ACCOUNTS_READY), expected, "{name}");
    }
}

#[test]
fn bindings_count_only_if_people_can_log_in() {
    let user = |name: &str| json!([{"kind": "User", "name": name}]);
    let cases: [Case<'_>; 6] = [
        ("users and a group", &|_| {}, NO_LOGIN),
        ("a group alone", &|facts| bind(facts, &json!([{"kind": "Group", "name": "devs"}])), NO_LOGIN),
        ("no bindings", &|facts| facts.namespace.role_bindings.clear(), MET),
        // Accounts in the management cluster don't get a binding in the workload cluster, and neither do names that have
        // another meaning there.
        (
            "only programs",
            &|facts| {
                bind(
                    facts,
                    &json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}, {"kind": "Group", "name": "system:serviceaccounts:ns"}]),
                );
            },
            MET,
        ),
        ("an authenticator", &|facts| add(facts, AddonType::AuthService, AddonState::Applied), MET),
        (
            "an authenticator that another tool applies",
            &|facts| add(facts, AddonType::AuthService, AddonState::Unmanaged),
            NO_LOGIN,
        ),
    ];
    for (name, change, expected) in cases {
        let (fixture, mut facts) = cluster();
        change(&mut facts);
        apply(&fixture, &mut facts);
        assert_eq!(shown(&fixture, &facts, words::ROLE_BINDING_SYNCED), expected, "{name}");
    }
    let (fixture, mut facts) = cluster();
    bind(&mut facts, &user("a"));
    apply(&fixture, &mut facts);
    let conditions = compute_status(&fixture.tkc, &facts, None).status.conditions;
    let message = find(&conditions, words::ROLE_BINDING_SYNCED).unwrap().message.clone().unwrap();
    assert!(message.contains("for 1 user of namespace ns"), "{message}");
}

#[test]
fn every_message_says_what_is_there_what_is_missing_and_what_to_do() {
    let mut text = String::new();
    let mut show = |name: &str, fixture: &ClusterFixture, facts: &Facts, types: &[&str]| {
        let conditions = compute_status(&fixture.tkc, facts, None).status.conditions;
        for type_ in types {
            let condition = find(&conditions, type_).unwrap();
            let message = condition.message.as_deref().unwrap_or_default();
            writeln!(text, "{name}: {type_}\n    {message}").unwrap();
        }
    };
    let (mut fixture, mut facts) = cluster();
    show("nothing installed", &fixture, &facts, &TYPES);
    survey(&mut facts).left_in_image =
        ["authsvc", "calico", "metrics-server", "pvcsi", "vmware-guest-cluster"].map(str::to_owned).to_vec();
    show("an image of vSphere 7", &fixture, &facts, &[&TYPES[..], &[words::ADDONS_READY]].concat());
    survey(&mut facts).tokens[0].is_required = true;
    ask(&mut fixture, &mut facts);
    show(
        "asked for",
        &fixture,
        &facts,
        &[words::STORAGE_CLASS_SYNCED, words::PROVIDER_SERVICE_ACCOUNTS_READY, READY],
    );
    survey(&mut facts).driver = ProgramPresence::Installed;
    show("on no node", &fixture, &facts, &[words::STORAGE_CLASS_SYNCED]);
    survey(&mut facts).driver = ProgramPresence::Running;
    show("another driver", &fixture, &facts, &[words::STORAGE_CLASS_SYNCED]);
    bring_classes(&fixture, &mut facts);
    show("another driver with classes of its own", &fixture, &facts, &[words::STORAGE_CLASS_SYNCED]);
    insta::assert_snapshot!(text);
}

/// After a start, gcm keeps the old status until it has surveyed the workload cluster.
#[test]
fn after_a_restart_a_status_is_kept_until_somebody_has_looked() {
    let (fixture, facts) = cluster();
    let with_image = |facts: &Facts| {
        let mut facts = facts.clone();
        survey(&mut facts).left_in_image = vec!["pvcsi".to_owned()];
        facts
    };
    let used = |facts: &Facts| {
        let mut facts = facts.clone();
        survey(&mut facts).driver = ProgramPresence::Running;
        survey(&mut facts).tokens.iter_mut().for_each(|token| token.program = ProgramPresence::Running);
        facts
    };
    let (mut asking, mut asked) = cluster();
    ask(&mut asking, &mut asked);
    let mut required = facts.clone();
    survey(&mut required).tokens[0].is_required = true;
    for (fixture, facts) in [
        (&fixture, &facts),
        (&fixture, &with_image(&facts)),
        (&fixture, &used(&facts)),
        (&fixture, &required),
        (&asking, &asked),
    ] {
        let before = compute_status(&fixture.tkc, facts, None).status;
        let mut tkc = fixture.tkc.clone();
        tkc.status = Some(before.clone());
        let restarted = Facts { addons: None, synced: None, survey: None, ..facts.clone() };
        assert_eq!(compute_status(&tkc, &restarted, None).status, before);
        assert_eq!(compute_status(&tkc, facts, None).status, before, "and when it has looked");
    }
}

/// Only survey results are kept: a failure that capw reported and that has been resolved must not survive a restart.
#[test]
fn a_failure_of_capw_is_not_kept() {
    let (mut fixture, mut facts) = cluster();
    facts.survey = None;
    let failed = words::PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED;
    let before = Condition::is_false(words::PROVIDER_SERVICE_ACCOUNTS_READY, WARNING, failed, "not held");
    let conditions = vec![before];
    fixture.tkc.status = Some(TanzuKubernetesClusterStatus { conditions, ..Default::default() });
    let now = shown(&fixture, &facts, words::PROVIDER_SERVICE_ACCOUNTS_READY);
    assert!(now.starts_with(UNKNOWN) && now.ends_with(&format!("Ready {TRUE}")), "{now}");
    assert!(!now.starts_with(FALSE));
}
