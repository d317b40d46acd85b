//! Checks that a workload cluster can use its objects: storage classes need a driver, tokens need a program, and role
//! bindings need an authenticator.
//!
//! The objects alone don't prove this: without a driver, volumes stay Pending. If the cluster requests the missing program,
//! the condition counts in `Ready`. Otherwise the condition has severity `Info`, and `Ready` ignores it.

use api::conditions::{Condition, INFO, find, tkc as words, wcp_cluster};
use api::gcm::TanzuKubernetesCluster;
use api::names;
use kit::guest::bounded;
use kube::ResourceExt;

use super::authentication::accepts_tokens;
use super::left_in_image::{self, BundlePurpose};
use super::{ConditionWithCause, build_failing_condition};
use crate::addons::bundle::AddonType;
use crate::addons::report::{AddonReport, AddonState};
use crate::addons::survey::{GuestSurvey, ProgramPresence, STORAGE_DRIVER_SECRET, TokenUse};
use crate::cluster::facts::Facts;
use crate::sync;
use crate::sync::role_bindings::People;
use crate::sync::storage_classes::PROVISIONER;
use crate::sync::wanted::WantedObjects;

/// Returns the `StorageClassSynced` condition for a workload cluster in which all `classes` are applied.
pub fn judge_storage(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    classes: &WantedObjects,
) -> ConditionWithCause {
    const TYPE: &str = words::STORAGE_CLASS_SYNCED;
    let syncing = |why: String| Condition::is_unknown(TYPE, words::STORAGE_CLASS_SYNCING, why).into();
    let Some(survey) = &facts.survey else { return syncing(NOT_SURVEYED.to_owned()) };
    let driver = match &survey.driver {
        ProgramPresence::Running if classes.objects.manifests().is_empty() => {
            return Condition::is_true(TYPE).into();
        }
        ProgramPresence::Running => match user_of_driver_token(survey) {
            Some(ProgramPresence::Running) => return Condition::is_true(TYPE).into(),
            Some(ProgramPresence::Refused(why)) => {
                return syncing(bounded(&format!(
                    "The cluster refuses to show the Pods of its CSI driver: {why}"
                )));
            }
            _ => format!(
                "CSI driver {PROVISIONER} is not the paravirtual driver, because no running Pod uses the token in Secret {STORAGE_DRIVER_SECRET}. Only the paravirtual driver accepts these classes"
            ),
        },
        ProgramPresence::Refused(why) => {
            return syncing(bounded(&format!("The cluster refuses to show its CSI driver: {why}")));
        }
        ProgramPresence::Installed => {
            format!("CSI driver {PROVISIONER} is registered on no node: no CSINode lists it")
        }
        ProgramPresence::Missing => format!("there is no CSI driver {PROVISIONER}"),
    };
    let remedy = if survey.driver == ProgramPresence::Running {
        "bring StorageClasses of your own in the bundle of the driver, and annotate the bundle with run.tanzu.vmware.com/storage-classes: none (docs/cluster-services.md)"
    } else {
        "install the driver in the cluster, for example as an add-on of type csi (docs/cluster-services.md)"
    };
    let left = left_in_image::format_sentence(&survey.left_in_image, BundlePurpose::Storage);
    if asks_for_storage(tkc, facts) {
        let message =
            format!("{driver}, so PersistentVolumeClaims stay Pending. To get volumes, {remedy}{left}");
        return build_failing_condition(tkc, TYPE, words::STORAGE_DRIVER_NOT_FOUND, message);
    }
    let present = match classes.objects.manifests().len() {
        0 => "The namespace assigns no storage class to the cluster, and".to_owned(),
        1 => "1 storage class is in the cluster, but".to_owned(),
        count => format!("{count} storage classes are in the cluster, but"),
    };
    let message = format!(
        "{present} {driver}, so PersistentVolumeClaims stay Pending. If you need volumes, {remedy}{left}"
    );
    Condition::is_false(TYPE, INFO, words::NO_STORAGE_DRIVER, message).into()
}

/// Returns the presence of the program that uses the paravirtual driver's token. Other drivers don't use tokens for the
/// management cluster.
fn user_of_driver_token(survey: &GuestSurvey) -> Option<&ProgramPresence> {
    let token = survey.tokens.iter().find(|token| token.secret.name == STORAGE_DRIVER_SECRET)?;
    Some(&token.program)
}

/// Returns the `RoleBindingSynced` condition for a workload cluster in which all role bindings are applied.
pub fn judge_role_bindings(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    _: &WantedObjects,
) -> ConditionWithCause {
    const TYPE: &str = words::ROLE_BINDING_SYNCED;
    let people = sync::people(&facts.namespace);
    if people == People::default() || has_authenticator(tkc, facts) {
        return Condition::is_true(TYPE).into();
    }
    let left = facts
        .survey
        .as_ref()
        .map(|survey| left_in_image::format_sentence(&survey.left_in_image, BundlePurpose::Login));
    let message = format!(
        "The cluster has ClusterRoleBindings for {people} of namespace {}, but its API server has no authenticator that knows these names, so these users cannot log in. Use the kubeconfig in Secret {}, or add an issuer of tokens to spec.settings.authentication (docs/login.md){}",
        tkc.namespace().unwrap_or_default(),
        names::kubeconfig_secret(&tkc.name_any()),
        left.unwrap_or_default(),
    );
    Condition::is_false(TYPE, INFO, words::NO_AUTHENTICATOR, message).into()
}

/// Returns the `ProviderServiceAccountsReady` condition for a workload cluster that contains the tokens of all accounts.
pub fn judge_accounts(tkc: &TanzuKubernetesCluster, facts: &Facts) -> ConditionWithCause {
    const TYPE: &str = words::PROVIDER_SERVICE_ACCOUNTS_READY;
    let unknown = |why: String| {
        Condition::is_unknown(TYPE, wcp_cluster::PROVIDER_SERVICE_ACCOUNTS_RECONCILING, why).into()
    };
    let Some(survey) = &facts.survey else {
        return keep_accounts(tkc).unwrap_or_else(|| unknown(NOT_SURVEYED.to_owned()));
    };
    let unused = || survey.tokens.iter().filter(|token| token.program == ProgramPresence::Missing);
    if let Some(token) = unused().find(|token| token.is_required) {
        let message = format!(
            "an add-on refers to Secret {}, but no running Pod uses the token in it. Check the Pods in namespace {}",
            path(token),
            token.secret.namespace
        );
        return build_failing_condition(tkc, TYPE, words::PROVIDER_SERVICE_ACCOUNT_USER_NOT_FOUND, message);
    }
    let refused = survey.tokens.iter().find_map(|token| match &token.program {
        ProgramPresence::Refused(why) => Some(why),
        _ => None,
    });
    if let Some(why) = refused {
        return unknown(bounded(&format!("The cluster refuses to show its Pods: {why}")));
    }
    let secrets: Vec<_> = unused().map(path).collect();
    if secrets.is_empty() {
        return Condition::is_true(TYPE).into();
    }
    let message = describe_unused(&secrets, survey);
    Condition::is_false(TYPE, INFO, words::PROVIDER_SERVICE_ACCOUNTS_UNUSED, message).into()
}

fn describe_unused(secrets: &[String], survey: &GuestSurvey) -> String {
    let left = [BundlePurpose::CloudProvider, BundlePurpose::Storage]
        .map(|purpose| left_in_image::format_sentence(&survey.left_in_image, purpose));
    format!(
        "The accounts exist, but no running Pod uses the tokens in the cluster's Secrets {}. If you need the programs that use them, install them as add-ons (docs/addons.md){}",
        secrets.join(" and "),
        left.concat()
    )
}

/// Returns the previous condition, if it is based on a survey. gcm keeps such a condition from its start until the first survey.
fn keep_accounts(tkc: &TanzuKubernetesCluster) -> Option<ConditionWithCause> {
    let conditions = &tkc.status.as_ref()?.conditions;
    let before = find(conditions, words::PROVIDER_SERVICE_ACCOUNTS_READY)?;
    let reason = before.reason.as_deref();
    let is_about_use = reason.is_none_or(|reason| {
        [words::PROVIDER_SERVICE_ACCOUNTS_UNUSED, words::PROVIDER_SERVICE_ACCOUNT_USER_NOT_FOUND]
            .contains(&reason)
    });
    is_about_use.then(|| before.clone().into())
}

/// Returns true if the workload cluster's API server can authenticate users under the names in role bindings: through an
/// applied AuthService add-on, or through token issuers.
pub fn has_authenticator(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let serves = |report: &AddonReport| {
        report.type_ == Some(AddonType::AuthService) && report.state == AddonState::Applied
    };
    facts.addons.iter().flat_map(|reports| reports.iter()).any(serves) || accepts_tokens(tkc, facts)
}

/// Returns true if the spec names storage classes, or if the cluster gets a storage driver.
fn asks_for_storage(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let mut reports = facts.addons.iter().flat_map(|reports| reports.iter());
    sync::is_storage_requested(tkc) || reports.any(|report| report.type_ == Some(AddonType::Csi))
}

fn path(token: &TokenUse) -> String {
    format!("{}/{}", token.secret.namespace, token.secret.name)
}

/// The message before the first survey.
const NOT_SURVEYED: &str = "Waiting for the API server of the cluster";

#[cfg(test)]
mod tests;
