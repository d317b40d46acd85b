//! Token issuers in a workload cluster: the objects to apply, and whether the API servers use them.

use api::conditions::{Condition, find, tkc as words};
use api::gcm::TanzuKubernetesCluster;
use kit::guest::bounded;

use super::{ConditionWithCause, build_failing_condition};
use crate::addons::api_servers::AuthenticationState;
use crate::addons::choice::ChosenAddon;
use crate::addons::report::AddonState;
use crate::cluster::facts::Facts;
use crate::cluster::input::Input;
use crate::release::KubernetesRelease;
use crate::spec::authentication::{configuration, distributes_issuers, hash, is_supported, issuers};
use crate::sync::{self, AUTHENTICATION};

const TYPE: &str = words::AUTHENTICATION_READY;
/// The maximum number of names in a message.
const MAX_NAMES: usize = 3;

/// Returns the objects that distribute the issuers, for a cluster that has or had issuers. Returns `None` if an API server
/// doesn't support them.
pub fn set(input: &Input<'_>, facts: &Facts) -> Option<ChosenAddon> {
    let oldest = oldest_release(facts).filter(|oldest| is_supported(oldest))?;
    let image = image_of("kube-apiserver", input.release);
    let wanted = || sync::authentication::wanted(issuers(&input.tkc.spec), oldest, &image);
    distributes_issuers(input.tkc).then(|| sync::set(AUTHENTICATION, wanted()))
}

/// Returns the image of a Kubernetes program, such as `kube-apiserver`, under the name that kubeadm uses.
pub fn image_of(program: &str, release: &KubernetesRelease) -> String {
    let repository = release.image_repository.as_deref().unwrap_or("registry.k8s.io");
    format!("{repository}/{program}:{}", release.kubernetes.replace('+', "_"))
}

/// Returns the hash of the configuration that the API servers should use, for a cluster that has or had issuers. Returns `None`
/// if an API server doesn't support issuers.
pub fn wanted_hash(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<String> {
    let oldest = oldest_release(facts).filter(|oldest| is_supported(oldest))?;
    distributes_issuers(tkc).then(|| hash(&configuration(issuers(&tkc.spec), oldest)))
}

/// Returns the oldest Kubernetes version among the API servers. Newer API servers also read the configuration format of this
/// version.
fn oldest_release(facts: &Facts) -> Option<&str> {
    let live = facts.control_plane.as_deref()?;
    let oldest = live.status.as_ref().and_then(|status| status.version.as_deref());
    Some(oldest.unwrap_or(&live.spec.version))
}

/// Returns true if the cluster has issuers and all API servers use the current list.
pub fn accepts_tokens(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    !issuers(&tkc.spec).is_empty() && state(tkc, facts) == Some(&AuthenticationState::InUse)
}

/// Returns the last known state of the current configuration on the API servers, or `None` if it is unknown.
fn state<'f>(tkc: &TanzuKubernetesCluster, facts: &'f Facts) -> Option<&'f AuthenticationState> {
    let found = facts.survey.as_ref()?.authentication.as_ref()?;
    (Some(&found.hash) == wanted_hash(tkc, facts).as_ref()).then_some(&found.state)
}

/// Returns the condition about token issuers, with its cause. Returns `None` for a cluster that never had issuers.
pub fn condition(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<ConditionWithCause> {
    if !distributes_issuers(tkc) {
        return None;
    }
    let oldest = oldest_release(facts).unwrap_or_default();
    if !oldest.is_empty() && !is_supported(oldest) {
        let message = format!(
            "spec.settings.authentication.jwt has no effect: API servers of {oldest} read no configuration of issuers. Upgrade the cluster to v1.30 or later"
        );
        return (!issuers(&tkc.spec).is_empty())
            .then(|| build_failing_condition(tkc, TYPE, words::AUTHENTICATION_UNSUPPORTED, message));
    }
    if let Some(why) = application_failure(facts) {
        return Some(build_failing_condition(tkc, TYPE, words::AUTHENTICATION_FAILED, bounded(&why)));
    }
    if facts.survey.is_none() {
        // The workload cluster hasn't been surveyed since gcm started, so keep the last condition.
        let before = tkc.status.as_ref().and_then(|status| find(&status.conditions, TYPE));
        return Some(before.map_or_else(
            || reconciling("Waiting for the API server of the cluster"),
            |before| before.clone().into(),
        ));
    }
    let pending = || {
        reconciling(
            "The API servers have not read spec.settings.authentication.jwt yet. The kubelet brings it to their nodes in up to two minutes",
        )
    };
    Some(match state(tkc, facts) {
        Some(AuthenticationState::InUse) => Condition::is_true(TYPE).into(),
        // An API server doesn't reject an empty list, so the rejection is about the previous list.
        Some(AuthenticationState::Rejected(_)) if issuers(&tkc.spec).is_empty() => pending(),
        Some(AuthenticationState::Rejected(pods)) => {
            build_failing_condition(tkc, TYPE, words::AUTHENTICATION_REJECTED, describe_rejection(tkc, pods))
        }
        Some(AuthenticationState::Unanswered(why)) => {
            reconciling(&bounded(&format!("An API server cannot be asked which issuers it uses: {why}")))
        }
        Some(AuthenticationState::Pending(_)) | None => pending(),
    })
}

/// Returns the reason why the issuers' objects can't be applied in the workload cluster.
fn application_failure(facts: &Facts) -> Option<String> {
    let mut reports = facts.synced.iter().flat_map(|reports| reports.iter());
    match &reports.find(|report| report.name == AUTHENTICATION)?.state {
        AddonState::Failed(why) => Some(why.clone()),
        _ => None,
    }
}

fn reconciling(why: &str) -> ConditionWithCause {
    Condition::is_unknown(TYPE, words::AUTHENTICATION_RECONCILING, why).into()
}

fn list(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    shown.join(", ")
}

fn describe_rejection(tkc: &TanzuKubernetesCluster, pods: &[String]) -> String {
    let urls: Vec<_> = issuers(&tkc.spec).iter().map(|one| one.issuer.url.clone()).collect();
    format!(
        "an API server ({}) refuses spec.settings.authentication.jwt and keeps the issuers that it had. An issuer ({}) does not answer control plane nodes, certificateAuthority does not fit its certificate, or an expression is wrong. Search the log of the Pod in namespace kube-system for \"authentication config\" and \"oidc\", and correct the field or the issuer",
        bounded(&list(pods)),
        bounded(&list(&urls))
    )
}

#[cfg(test)]
mod tests;
