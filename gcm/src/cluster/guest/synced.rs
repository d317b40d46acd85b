//! Computes the conditions about objects that a workload cluster gets from its namespace.

use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::{Condition, WARNING, find, tkc as words};
use api::gcm::TanzuKubernetesCluster;
use kit::guest::bounded;
use kube::ResourceExt;

use super::{ConditionWithCause, build_failing_condition, usable};
use crate::addons::choice::bundled_classes;
use crate::addons::report::{AddonReport, AddonState};
use crate::cluster::facts::Facts;
use crate::sync::wanted::{ObjectProblem, WantedObjects};
use crate::sync::{self, ROLE_BINDINGS, STORAGE_CLASSES, SUPERVISOR};

/// The parameters of one kind of condition.
struct Kind {
    type_: &'static str,
    failed: &'static str,
    syncing: &'static str,
    slot: &'static str,
    /// Computes the condition once all objects are applied. It then depends on whether the workload cluster can use them.
    judge: fn(&TanzuKubernetesCluster, &Facts, &WantedObjects) -> ConditionWithCause,
}

const OF_ROLE_BINDINGS: Kind = Kind {
    type_: words::ROLE_BINDING_SYNCED,
    failed: words::ROLE_BINDING_SYNC_FAILED,
    syncing: words::ROLE_BINDING_SYNCING,
    slot: ROLE_BINDINGS,
    judge: usable::judge_role_bindings,
};
const OF_STORAGE_CLASSES: Kind = Kind {
    type_: words::STORAGE_CLASS_SYNCED,
    failed: words::STORAGE_CLASS_SYNC_FAILED,
    syncing: words::STORAGE_CLASS_SYNCING,
    slot: STORAGE_CLASSES,
    judge: usable::judge_storage,
};

const OF_SUPERVISOR: Kind = Kind {
    type_: words::SERVICE_DISCOVERY_READY,
    failed: words::SUPERVISOR_HEADLESS_SERVICE_SETUP_FAILED,
    syncing: words::SERVICE_DISCOVERY_RECONCILING,
    slot: SUPERVISOR,
    judge: |_, _, _| Condition::is_true(words::SERVICE_DISCOVERY_READY).into(),
};

/// Returns the conditions and their causes, in the order in which the summary evaluates them. `ServiceDiscoveryReady` is
/// omitted if the management cluster's address is unknown.
pub fn conditions(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<ConditionWithCause> {
    let supervisor = sync::supervisor(&facts.namespace);
    let bundled = bundled_classes(&facts.bundles, &tkc.name_any());
    let mut all = vec![
        condition(&OF_ROLE_BINDINGS, &sync::role_bindings(tkc, &facts.namespace), tkc, facts),
        condition(
            &OF_STORAGE_CLASSES,
            &sync::storage_classes(tkc, &facts.namespace, bundled.as_ref()),
            tkc,
            facts,
        ),
    ];
    all.extend(supervisor.map(|wanted| condition(&OF_SUPERVISOR, &wanted, tkc, facts)));
    all
}

fn condition(
    kind: &Kind,
    wanted: &WantedObjects,
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
) -> ConditionWithCause {
    if let Some(ObjectProblem { object, message }) = wanted.problems.first() {
        let (object, message, reason) = (object.clone(), message.clone(), kind.failed.to_owned());
        let cause = Cause { object, reason, message, severity: Severity::Warning };
        let more = wanted.problems.len() - 1;
        let text = if more > 0 { format!("{more} more like this: {cause}") } else { cause.to_string() };
        let condition = Condition::is_false(kind.type_, WARNING, kind.failed, text);
        return ConditionWithCause { condition, cause: Some(cause) };
    }
    let syncing = |why: &str| Condition::is_unknown(kind.type_, kind.syncing, bounded(why)).into();
    let report = |reports: &[AddonReport]| reports.iter().find(|report| report.name == kind.slot).cloned();
    let Some(AddonReport { version, state, .. }) = facts.synced.as_ref().and_then(|all| report(all)) else {
        // The workload cluster had no round since gcm started, so keep the last condition.
        let before = tkc.status.as_ref().and_then(|status| find(&status.conditions, kind.type_));
        return match before {
            Some(before) => before.clone().into(),
            None => syncing("Waiting for the API server of the cluster"),
        };
    };
    let is_of_now = version.as_deref() == Some(wanted.objects.version());
    match state {
        AddonState::Applied if is_of_now => (kind.judge)(tkc, facts, wanted),
        AddonState::Failed(why) if is_of_now => {
            build_failing_condition(tkc, kind.type_, kind.failed, bounded(&why))
        }
        AddonState::Pending(why) | AddonState::InProgress(why) => syncing(&why),
        _ => syncing("It is being applied in the cluster"),
    }
}

#[cfg(test)]
mod tests;
