use crate::account::error::Stop;

use super::*;

fn account(name: &str, outcome: Option<Result<(), Error>>) -> ProviderServiceAccount {
    let mut account = ProviderServiceAccount::default();
    account.metadata.name = Some(name.into());
    account.metadata.namespace = Some("ben-test".into());
    account.status = outcome.and_then(|outcome| status(&account, &outcome.into()));
    account
}

fn forbidden() -> Error {
    Error::Forbidden { what: "writing Role ben-test/a".into(), why: "secrets are not lent".into() }
}

fn away() -> Error {
    Stop::Unreachable("no route".into()).into()
}

fn taken() -> Error {
    Stop::NameTaken { object: "Secret ben-test/a-secret".into() }.into()
}

#[test]
fn only_what_somebody_must_put_right_is_false() {
    let cases = [
        (Ok(()), "True", "Ready", false),
        (Err(away()), "Unknown", "ProviderServiceAccountsReconciling", false),
        (Err(taken()), "False", "ProviderServiceAccountsReconciliationFailed", true),
        (Err(forbidden()), "False", "ProviderServiceAccountsReconciliationFailed", true),
        (Err(Error::Guest("no".into())), "False", "ProviderServiceAccountsReconciliationFailed", true),
    ];
    for (outcome, is, reason, has_message) in cases {
        let message = outcome.as_ref().err().map(ToString::to_string);
        let shown = account("a", Some(outcome)).status.unwrap();
        let condition = &shown.conditions[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), (is, reason));
        assert_eq!(shown.ready, Some(is == "True"));
        assert_eq!(shown.error_message, message.filter(|_| has_message), "{reason}");
    }
}

#[test]
fn a_cluster_says_first_what_fails_and_then_what_is_not_known() {
    let shown = |accounts: &[ProviderServiceAccount]| {
        sum(accounts, Some(1)).map(|condition| (condition.status, condition.message))
    };
    let at = |is: &str, message: &str| Some((is.to_owned(), message.to_owned()));
    let named = "ProviderServiceAccount ben-test/a";
    let fine = || account("b", Some(Ok(())));
    assert_eq!(shown(&[]), None);
    assert_eq!(shown(&[fine()]), at("True", ""));
    let new = account("a", None);
    assert_eq!(shown(&[fine(), new]), at("Unknown", &format!("{named}: it has not been reconciled yet")));
    let gone = account("0", Some(Err(away())));
    let refused = account("a", Some(Err(forbidden())));
    let message = format!("{named}: writing Role ben-test/a: secrets are not lent");
    assert_eq!(shown(&[fine(), gone.clone(), refused.clone()]), at("False", &message));
    let both = [refused, account("b", Some(Err(taken()))), gone];
    assert_eq!(shown(&both), at("False", &format!("{message} (1 more like this)")));
}
