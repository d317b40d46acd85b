use std::sync::Arc;

use api::conditions::{READY, TRUE, UNKNOWN};
use api::gcm::authentication::AuthenticationSettings;
use api::names::annotation;
use kube::ResourceExt;

use super::*;
use crate::addons::api_servers::AuthenticationUse;
use crate::addons::report::AddonReport;
use crate::cluster::fixtures::{ClusterFixture, plan};
use crate::cluster::status::compute_status;
use crate::cluster::status::conditions::is_guest_failing;
use crate::testing::{issuer, sound};

/// Returns a running cluster with an issuer. If `noted`, the cluster had an issuer before.
fn with_issuer(noted: bool) -> (TanzuKubernetesCluster, Facts) {
    let fixture = ClusterFixture::running(sound());
    let mut tkc = fixture.tkc.clone();
    tkc.spec.settings.get_or_insert_default().authentication =
        Some(AuthenticationSettings { jwt: Some(vec![issuer("corp:")]) });
    if noted {
        tkc.annotations_mut().insert(annotation::API_SERVER.to_owned(), "issuers".to_owned());
    }
    (tkc, fixture.facts())
}

fn found(tkc: &TanzuKubernetesCluster, facts: &Facts, state: AuthenticationState) -> Facts {
    let mut facts = facts.clone();
    let hash = wanted_hash(tkc, &facts).unwrap();
    Arc::make_mut(facts.survey.as_mut().unwrap()).authentication = Some(AuthenticationUse { hash, state });
    facts
}

fn shown(tkc: &TanzuKubernetesCluster, facts: &Facts) -> String {
    let ConditionWithCause { condition, cause } = condition(tkc, facts).unwrap();
    let ready = compute_status(tkc, facts, None).status.conditions;
    let is_ready = find(&ready, READY).is_some_and(|ready| ready.status == TRUE);
    assert_eq!(is_guest_failing(&condition), cause.is_some());
    assert_eq!(is_ready, cause.is_none(), "what takes a moment keeps no cluster from being ready");
    let reason = condition.reason.clone().unwrap_or_default();
    format!("{} {reason}: {}", condition.status, condition.message.unwrap_or_default())
}

#[test]
fn a_condition_is_there_only_for_clusters_that_have_issuers_or_had_some() {
    let fixture = ClusterFixture::running(sound());
    assert!(condition(&fixture.tkc, &fixture.facts()).is_none());
    assert_eq!(wanted_hash(&fixture.tkc, &fixture.facts()), None);
    let (mut tkc, facts) = with_issuer(true);
    tkc.spec.settings.as_mut().unwrap().authentication = None;
    let late = found(&tkc, &facts, AuthenticationState::Rejected(vec!["kube-apiserver-c-1".into()]));
    let late = shown(&tkc, &late);
    assert!(
        late.starts_with("Unknown AuthenticationReconciling: "),
        "an empty list is never refused: {late}"
    );
    let facts = found(&tkc, &facts, AuthenticationState::InUse);
    assert_eq!(shown(&tkc, &facts), "True : ", "its API servers are known to have no issuer any more");
    assert!(!accepts_tokens(&tkc, &facts));
}

#[test]
fn each_state_is_named_and_true_is_only_what_is_in_use() {
    use AuthenticationState::{InUse, Pending, Rejected, Unanswered};
    let (tkc, facts) = with_issuer(false);
    let of = |state: AuthenticationState| shown(&tkc, &found(&tkc, &facts, state));
    assert_eq!(of(InUse), "True : ");
    assert!(of(Pending(vec![])).starts_with("Unknown AuthenticationReconciling: "));
    assert!(
        of(Unanswered("no".into()))
            .starts_with("Unknown AuthenticationReconciling: An API server cannot be asked")
    );
    let rejected = of(Rejected(vec!["kube-apiserver-c-2".into()]));
    for part in [
        "False AuthenticationRejected: In cluster c",
        "kube-apiserver-c-2",
        "https://login.example.com",
        "certificateAuthority",
    ] {
        assert!(rejected.contains(part), "{rejected}");
    }
    assert!(accepts_tokens(&tkc, &found(&tkc, &facts, InUse)));
    assert!(!accepts_tokens(&tkc, &found(&tkc, &facts, Pending(vec![]))));
    let mut other = tkc.clone();
    let settings = other.spec.settings.as_mut().unwrap().authentication.as_mut().unwrap();
    settings.jwt.as_mut().unwrap()[0].issuer.audiences[0] = "other".to_owned();
    let stale = found(&tkc, &facts, InUse);
    assert_eq!(
        condition(&other, &stale).unwrap().condition.status,
        UNKNOWN,
        "that was of another configuration"
    );
}

#[test]
fn failures_and_unsupported_releases_are_named() {
    let (tkc, mut facts) = with_issuer(true);
    let state = AddonState::Failed("denied".to_owned());
    let report = AddonReport { name: AUTHENTICATION.to_owned(), type_: None, version: None, state };
    Arc::make_mut(facts.synced.as_mut().unwrap()).push(report);
    assert!(shown(&tkc, &facts).starts_with("False AuthenticationFailed: In cluster c"));
    let (tkc, mut facts) = with_issuer(false);
    let live = Arc::make_mut(facts.control_plane.as_mut().unwrap());
    live.status.as_mut().unwrap().version = Some("v1.29.4+vmware.3-fips.1".to_owned());
    let unsupported = condition(&tkc, &facts).unwrap().condition;
    assert_eq!(unsupported.reason.as_deref(), Some(words::AUTHENTICATION_UNSUPPORTED));
    assert!(plan(&tkc, &facts).unwrap().addons.unwrap().synced.iter().all(|set| set.name != AUTHENTICATION));
}

#[test]
fn after_a_restart_the_condition_stays_until_somebody_has_looked() {
    let (mut tkc, mut facts) = with_issuer(true);
    facts.survey = None;
    assert_eq!(condition(&tkc, &facts).unwrap().condition.status, UNKNOWN);
    tkc.status.get_or_insert_default().conditions = vec![Condition::is_true(TYPE)];
    assert_eq!(condition(&tkc, &facts).unwrap().condition.status, TRUE);
}

#[test]
fn the_guest_gets_the_issuers_and_pods_with_an_image_that_its_nodes_have() {
    let (tkc, facts) = with_issuer(false);
    let addons = plan(&tkc, &facts).unwrap().addons.unwrap();
    let set = addons.synced.iter().find(|set| set.name == AUTHENTICATION).unwrap();
    let crate::addons::choice::BundleSource::Generated(objects) = &set.source else { panic!("generated") };
    let text: String = objects.manifests().iter().map(|manifest| manifest.json.as_str()).collect();
    assert!(text.contains("localhost:5000/vmware.io/kube-apiserver:v1.33.1_vmware.1-fips"), "{text}");
    assert!(text.contains("https://login.example.com"));
    assert_eq!(addons.survey.authentication, wanted_hash(&tkc, &facts));
    let none = ClusterFixture::running(sound());
    let none = plan(&none.tkc, &none.facts()).unwrap().addons.unwrap();
    assert!(none.synced.iter().all(|set| set.name != AUTHENTICATION));
}
