use std::sync::Arc;

use api::capi::ClusterStatus;
use api::capw::ProviderServiceAccountSpec;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;

use super::super::credentials::TOKEN_OF_UID;
use crate::fixtures;

use super::*;

fn rule(group: &str, resource: &str) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(vec![resource.into()]),
        verbs: vec!["get".into()],
        ..PolicyRule::default()
    }
}

fn account() -> ProviderServiceAccount {
    ProviderServiceAccount {
        metadata: ObjectMeta {
            name: Some("test-cluster-ccm".into()),
            namespace: Some("ben-test".into()),
            uid: Some("uid-of-account".into()),
            ..ObjectMeta::default()
        },
        spec: ProviderServiceAccountSpec {
            r#ref: ObjectReference { name: Some("test-cluster".into()), ..ObjectReference::default() },
            rules: vec![rule("vmoperator.vmware.com", "virtualmachines")],
            target_namespace: "vmware-system-cloud-provider".into(),
            target_secret_name: "cloud-provider-creds".into(),
        },
        status: None,
    }
}

/// Returns the facts for a cluster whose API server answers, before any object of the account exists.
fn nothing() -> Facts {
    let mut cluster = fixtures::cluster();
    let status = cluster.status.get_or_insert_with(ClusterStatus::default);
    status.initialization.get_or_insert_default().control_plane_initialized = Some(true);
    Facts {
        cluster: Some(Arc::new(cluster)),
        server: Some("https://192.168.123.3:6443".into()),
        children: Children::default(),
        guest: GuestFacts::Unneeded,
    }
}

/// Returns the facts after the first plan was carried out: the ServiceAccount exists.
fn first() -> Facts {
    let Plan { service_account, role, binding, token, in_guest: _ } = planned(&nothing());
    assert!(token.is_none(), "it belongs to what is not there yet");
    let mut service_account = service_account.unwrap();
    service_account.metadata.uid = Some("uid-of-service-account".into());
    let children = Children { service_account: Some(service_account), role, binding, token: None };
    Facts { children, ..nothing() }
}

/// Returns the facts after the second plan was carried out and Kubernetes has created this token.
fn made(token: &str) -> Facts {
    let facts = first();
    let mut secret = planned(&facts).token.unwrap();
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(TOKEN_OF_UID.into(), "uid-of-service-account".into());
    let values = [("token", token), ("ca.crt", "an authority"), ("namespace", "ben-test")];
    secret.data = Some(values.map(|(key, value)| (key.to_owned(), ByteString(value.into()))).into());
    let children = Children { token: Some(secret), ..facts.children };
    Facts { children, guest: seen(None), ..nothing() }
}

fn seen(secret: Option<Secret>) -> GuestFacts {
    GuestFacts::Seen(secret.map(Box::new))
}

fn planned(facts: &Facts) -> Plan {
    plan(&account(), facts).unwrap_or_else(|stop| panic!("{stop}"))
}

/// Returns the reason why the plan or its last step can't be computed.
fn stop(account: &ProviderServiceAccount, facts: &Facts) -> Option<Stop> {
    plan(account, facts).map_or_else(Some, |plan| plan.in_guest.err())
}

#[test]
fn an_account_gets_rights_a_token_and_a_secret_in_the_guest() {
    let first = planned(&nothing());
    let documents = [
        serde_json::to_value(first.service_account).unwrap(),
        serde_json::to_value(first.role).unwrap(),
        serde_json::to_value(first.binding).unwrap(),
        serde_json::to_value(planned(&self::first()).token).unwrap(),
        serde_json::to_value(planned(&made("a token")).in_guest.unwrap()).unwrap(),
    ];
    insta::assert_yaml_snapshot!(documents);
}

#[test]
fn what_is_as_it_should_be_is_not_written() {
    let facts = made("a token");
    let written = planned(&facts).in_guest.unwrap();
    let settled = planned(&Facts { guest: seen(written.map(|secret| *secret)), ..facts });
    let Plan { service_account, role, binding, token, in_guest } = settled;
    assert!(service_account.is_none() && role.is_none() && binding.is_none() && token.is_none());
    assert_eq!(in_guest, Ok(None));
}

#[test]
fn what_others_changed_is_put_right_and_a_new_token_follows() {
    let copy = |facts: &Facts| planned(facts).in_guest.unwrap().map(|secret| *secret);
    let old = copy(&made("a token"));
    let mut facts = Facts { guest: seen(old), ..made("another token") };
    let token = copy(&facts).unwrap().data.unwrap().remove("token").unwrap();
    assert_eq!(token.0, b"another token");

    let role = facts.children.role.as_mut().unwrap();
    role.rules = Some(vec![rule("", "pods")]);
    role.metadata.uid = Some("uid-of-role".into());
    facts.children.binding.as_mut().unwrap().subjects.as_mut().unwrap().clear();
    let plan = planned(&facts);
    let role = plan.role.unwrap();
    assert_eq!(role.rules, Some(account().spec.rules));
    assert_eq!(role.metadata.uid.as_deref(), Some("uid-of-role"), "no namesake is written");
    assert_eq!(plan.binding.unwrap().subjects.unwrap()[0].name, "test-cluster-ccm");
}

type Change = fn(&mut Children);

#[test]
fn a_token_of_a_former_service_account_is_not_brought() {
    let secret = || names::account_token_secret("test-cluster-ccm");
    let gone = Facts { children: Children { token: None, ..made("t").children }, ..made("t") };
    let expected = Stop::Token { secret: secret(), made: true };
    assert_eq!(stop(&account(), &gone), Some(expected));
    let mut another = made("t");
    another.children.service_account.as_mut().unwrap().metadata.uid = Some("new".into());
    assert_eq!(stop(&account(), &another), Some(Stop::Former(format!("Secret ben-test/{}", secret()))));
    let changes: [(&str, Change); 4] = [
        ("another's", |all| {
            let annotations = all.token.as_mut().unwrap().metadata.annotations.as_mut().unwrap();
            annotations.insert(TOKEN_OF_UID.into(), "former".into());
        }),
        ("another type", |all| all.token.as_mut().unwrap().type_ = Some("Opaque".into())),
        ("no token", |all| drop(all.token.as_mut().unwrap().data.as_mut().unwrap().remove("token"))),
        ("no authority", |all| drop(all.token.as_mut().unwrap().data.as_mut().unwrap().remove("ca.crt"))),
    ];
    for (what, change) in changes {
        let mut facts = made("t");
        change(&mut facts.children);
        let expected = Stop::Token { secret: secret(), made: false };
        assert_eq!(stop(&account(), &facts), Some(expected), "{what}");
    }
}

#[test]
fn what_is_of_somebody_else_is_not_taken_over() {
    let taken = |object: &str| Some(Stop::NameTaken { object: object.into() });
    let mut facts = made("t");
    facts.children.role.as_mut().unwrap().metadata.owner_references = None;
    assert_eq!(stop(&account(), &facts), taken("Role ben-test/test-cluster-ccm"));

    let mut facts = made("t");
    let secret = facts.children.token.as_mut().unwrap();
    secret.metadata.owner_references.as_mut().unwrap()[0].uid = "former".into();
    let former = Stop::Former("Secret ben-test/test-cluster-ccm-secret".into());
    assert_eq!(stop(&account(), &facts), Some(former));

    let mut users = planned(&made("t")).in_guest.unwrap().unwrap();
    users.metadata.annotations = None;
    let facts = Facts { guest: seen(Some(*users)), ..made("t") };
    let name = "in the cluster, Secret vmware-system-cloud-provider/cloud-provider-creds";
    assert_eq!(stop(&account(), &facts), taken(name));
}

#[test]
fn rights_are_made_though_the_guest_does_not_answer() {
    let mut facts = Facts { guest: GuestFacts::Unreachable("no route".into()), ..made("t") };
    facts.children.role = None;
    let plan = planned(&facts);
    assert!(plan.role.is_some());
    assert_eq!(plan.in_guest, Err(Stop::Unreachable("no route".into())));
}

#[test]
fn nothing_is_made_before_the_control_plane_answers() {
    let facts = Facts { server: None, ..nothing() };
    assert_eq!(stop(&account(), &facts), Some(Stop::ControlPlane("test-cluster".into())));
    let facts = Facts { cluster: None, ..nothing() };
    assert_eq!(stop(&account(), &facts), Some(Stop::Cluster("test-cluster".into())));
}

#[test]
fn what_no_account_can_be_like_is_named() {
    type Change = fn(&mut ProviderServiceAccountSpec);
    let cases: [(Change, &str); 8] = [
        (|spec| spec.r#ref.namespace = Some("other".into()), "spec.ref.namespace is \"other\""),
        (|spec| spec.target_namespace = "a/../b".into(), "spec.targetNamespace is \"a/../b\""),
        (|spec| spec.target_secret_name = String::new(), "spec.targetSecretName is \"\""),
        (|spec| spec.rules.push(rule("", "secrets")), "\"secrets\" of the API group \"\""),
        (|spec| spec.rules.push(rule("", "serviceaccounts/token")), "\"serviceaccounts/token\""),
        (|spec| spec.rules.push(rule(RBAC, "rolebindings")), "\"rolebindings\""),
        (|spec| spec.rules.push(rule("infrastructure.cluster.vmware.com", "wcpmachines")), "\"wcpmachines\""),
        (
            |spec| {
                let mut mixed = rule("vmoperator.vmware.com", "virtualmachines");
                mixed.api_groups.as_mut().unwrap().push(String::new());
                mixed.resources.as_mut().unwrap().push("secrets".into());
                spec.rules.push(mixed);
            },
            "\"secrets\" of the API group \"\"",
        ),
    ];
    assert_eq!(check(&account()), Ok(()));
    for (change, words) in cases {
        let mut account = account();
        change(&mut account.spec);
        let Err(Stop::Invalid(message)) = check(&account) else { panic!("{words}") };
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_token_is_in_no_debug_text() {
    let credentials = AccountCredentials::of(made("canary").children.token.as_ref().unwrap()).unwrap();
    assert_eq!(format!("{credentials:?}"), "Credentials");
}
