//! Computes an account's status, and the summary of a cluster's accounts, without I/O.

use api::capw::{ProviderServiceAccount, ProviderServiceAccountStatus};
use api::conditions::{TRUE, UNKNOWN, contract, wcp_cluster as words};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::events::describe_object;
use kit::reconcile::ReconcileOutcome;
use kit::status::{condition, find};
use kube::Resource;

use super::error::Error;

const TYPE: &str = words::PROVIDER_SERVICE_ACCOUNTS_READY;

/// Computes the status from the outcome, unless the account is paused. `Ready` is unknown while the account only waits, for example for the workload cluster.
pub fn status(
    account: &ProviderServiceAccount,
    outcome: &ReconcileOutcome<(), Error>,
) -> Option<ProviderServiceAccountStatus> {
    let generation = account.meta().generation;
    let new = match outcome {
        ReconcileOutcome::Paused => return None,
        ReconcileOutcome::Done(()) => condition(TYPE, true, contract::READY, "", generation),
        // The workload cluster may be unreachable for a moment, or not ready yet.
        ReconcileOutcome::Failed(Error::Stopped(stop)) if stop.is_waiting() => {
            unknown(stop.to_string(), generation)
        }
        ReconcileOutcome::Failed(error) => failed(error.to_string(), generation),
    };
    Some(ProviderServiceAccountStatus {
        ready: Some(outcome.done().is_some()),
        error_message: is_failed(&new).then(|| new.message.clone()),
        conditions: vec![new],
    })
}

/// Returns the condition that summarizes the accounts of a cluster, or `None` if the cluster has no accounts.
pub fn sum<'a>(
    accounts: impl IntoIterator<Item = &'a ProviderServiceAccount>,
    generation: Option<i64>,
) -> Option<Condition> {
    let mut accounts: Vec<_> = accounts.into_iter().collect();
    accounts.sort_by_key(|account| account.meta().name.clone());
    let shown = |account: &&ProviderServiceAccount| {
        let known = account.status.as_ref().and_then(|status| find(&status.conditions, TYPE)).cloned();
        let known = known.unwrap_or_else(|| unknown("it has not been reconciled yet".to_owned(), None));
        (describe_object(*account), known)
    };
    let conditions: Vec<_> = accounts.iter().map(shown).collect();
    if conditions.is_empty() {
        return None;
    }
    let unmet: Vec<_> = conditions.iter().filter(|(_, condition)| is_failed(condition)).collect();
    if let Some((name, condition)) = unmet.first() {
        let more = match unmet.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more like this)"),
        };
        return Some(failed(format!("{name}: {}{more}", condition.message), generation));
    }
    let waiting = conditions.iter().find(|(_, condition)| condition.status != TRUE);
    Some(match waiting {
        Some((name, condition)) => unknown(format!("{name}: {}", condition.message), generation),
        None => condition(TYPE, true, contract::READY, "", generation),
    })
}

/// Returns true if the condition says that the reconciliation of an account failed.
pub fn is_failed(condition: &Condition) -> bool {
    condition.reason == words::PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED
}

fn failed(message: String, generation: Option<i64>) -> Condition {
    condition(TYPE, false, words::PROVIDER_SERVICE_ACCOUNTS_RECONCILIATION_FAILED, message, generation)
}

fn unknown(message: String, generation: Option<i64>) -> Condition {
    let reason = words::PROVIDER_SERVICE_ACCOUNTS_RECONCILING;
    Condition { status: UNKNOWN.to_owned(), ..condition(TYPE, false, reason, message, generation) }
}

#[cfg(test)]
mod tests;
