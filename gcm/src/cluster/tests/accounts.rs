//! Tests the condition about accounts for programs: the report in the WCPCluster, and unused accounts.

use std::sync::Arc;

use api::conditions::find;

use crate::cluster::fixtures::{ClusterFixture, condition, from};
use crate::cluster::status::compute_status;
use crate::testing::sound;

const TYPE: &str = "ProviderServiceAccountsReady";

/// Returns status and reason of the condition, and status and message of the summary, after the WCPCluster reported this status
/// and reason.
fn shown(reported: Option<(&str, &str)>) -> (Option<(String, String)>, (String, String)) {
    let fixture = ClusterFixture::running(sound());
    let mut facts = fixture.facts();
    let wcp_cluster = Arc::make_mut(facts.wcp_cluster.as_mut().unwrap());
    let reported =
        reported.map(|(status, reason)| from(condition(TYPE, status, reason, "not\ncurrently held")));
    wcp_cluster.status.as_mut().unwrap().conditions.extend(reported);
    let conditions = compute_status(&fixture.tkc, &facts, None).status.conditions;
    let of = |type_| find(&conditions, type_);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ready = of("Ready").unwrap();
    let condition = of(TYPE).map(|shown| (shown.status.to_string(), text(&shown.reason)));
    (condition, (ready.status.to_string(), text(&ready.message)))
}

#[test]
fn only_an_account_that_fails_keeps_a_cluster_from_being_ready() {
    let fine = || ("True".to_owned(), String::new());
    let at = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    assert_eq!(shown(None), (None, fine()));
    let unused = "ProviderServiceAccountsUnused";
    assert_eq!(
        shown(Some(("True", "Ready"))),
        (at("False", unused), fine()),
        "nothing in the guest uses them"
    );
    let reconciling = "ProviderServiceAccountsReconciling";
    assert_eq!(shown(Some(("Unknown", reconciling))), (at("Unknown", reconciling), fine()));
    let failed = "ProviderServiceAccountsReconciliationFailed";
    let summary = ("False".to_owned(), "not; currently held".to_owned());
    assert_eq!(shown(Some(("False", failed))), (at("False", failed), summary));
}
