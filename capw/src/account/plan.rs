//! Plans an account's objects in its own namespace and in the workload cluster, without I/O.

use std::collections::BTreeMap;

use api::capw::ProviderServiceAccount;
use api::names::{self, annotation};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::apply::build_controller_reference;
use kit::events::describe_object;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::credentials::{AccountCredentials, TOKEN_OF, TOKEN_TYPE, is_current};
use super::error::Stop;
use super::gather::{Children, Facts, GuestFacts};
use super::guest::{is_of, mark};
use crate::upstream::{NameAvailability, child, claim};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The resources that accounts can never use, by API group. An empty list means all resources of the group. The API server
/// already rejects permissions that capw doesn't have.
const KEPT: [(&str, &[&str]); 3] =
    [("", &["secrets", "serviceaccounts"]), (RBAC, &[]), ("infrastructure.cluster.vmware.com", &[])];

/// The objects to write. Objects that already match the plan are left out.
#[derive(PartialEq)]
pub struct Plan {
    pub service_account: Option<ServiceAccount>,
    pub role: Option<Role>,
    pub binding: Option<RoleBinding>,
    /// The Secret in which Kubernetes creates a token.
    pub token: Option<Secret>,
    /// The workload cluster's Secret if it must be written, or the reason why it can't be planned.
    pub in_guest: Result<Option<Box<Secret>>, Stop>,
}

/// Rejects accounts with an invalid target or with rules for forbidden resources.
pub fn check(account: &ProviderServiceAccount) -> Result<(), Stop> {
    check_target(account)?;
    match account.spec.rules.iter().find_map(kept_resource) {
        Some(resource) => Err(Stop::Invalid(format!(
            "spec.rules contains {resource}, which programs in a guest are never allowed to use. Remove them"
        ))),
        None => Ok(()),
    }
}

/// Rejects a WCPCluster in another namespace, and invalid target names.
pub fn check_target(account: &ProviderServiceAccount) -> Result<(), Stop> {
    let spec = &account.spec;
    let elsewhere =
        spec.r#ref.namespace.as_deref().filter(|of| *of != account.namespace().unwrap_or_default());
    if let Some(elsewhere) = elsewhere {
        return Err(Stop::Invalid(format!(
            "spec.ref.namespace is {elsewhere:?}, but an account must reference a WCPCluster in its own namespace"
        )));
    }
    let names = [("targetNamespace", &spec.target_namespace), ("targetSecretName", &spec.target_secret_name)];
    if let Some((field, name)) = names.into_iter().find(|(_, name)| !is_name(name)) {
        return Err(Stop::Invalid(format!("spec.{field} is {name:?}, which is not a valid object name")));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    !name.is_empty() && name.len() <= 253 && name.chars().all(plain) && !name.starts_with('.')
}

/// Returns the rule's first forbidden resource together with its API group, as text for a message. Returns `None` if the rule is
/// allowed.
fn kept_resource(rule: &PolicyRule) -> Option<String> {
    let all = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (groups, resources) = (all(&rule.api_groups), all(&rule.resources));
    let kept = |group: &str, resource: &str| {
        let main = resource.split('/').next().unwrap_or_default();
        KEPT.iter().any(|(of, kept)| *of == group && (kept.is_empty() || kept.contains(&main)))
    };
    let found = groups.iter().find_map(|group| {
        resources.iter().find(|resource| kept(group, resource)).map(|found| (group, found))
    })?;
    Some(format!("{:?} of the API group {:?}", found.1, found.0))
}

/// Plans an account's objects from the facts. The token Secret is only planned once the ServiceAccount exists.
pub fn plan(account: &ProviderServiceAccount, facts: &Facts) -> Result<Plan, Stop> {
    let Some(cluster) = &facts.cluster else {
        return Err(Stop::Cluster(account.spec.r#ref.name.clone().unwrap_or_default()));
    };
    if facts.server.is_none() {
        return Err(Stop::ControlPlane(cluster.name_any()));
    }
    let Children { service_account, role, binding, token } = &facts.children;
    ours(account, service_account.as_ref())?;
    ours(account, role.as_ref())?;
    ours(account, binding.as_ref())?;
    if let Some(service_account) = service_account {
        ours(service_account, token.as_ref())?;
    }
    Ok(Plan {
        service_account: service_account.is_none().then(|| ServiceAccount {
            metadata: child(account, account.name_any(), &cluster.name_any()),
            ..ServiceAccount::default()
        }),
        role: planned_role(account, role.as_ref(), &cluster.name_any()),
        binding: planned_binding(account, binding.as_ref(), &cluster.name_any()),
        token: service_account
            .as_ref()
            .filter(|_| token.is_none())
            .map(|of| token_secret(account, of, &cluster.name_any())),
        in_guest: in_guest(account, facts),
    })
}

fn ours<O, C>(owner: &O, child: Option<&C>) -> Result<(), Stop>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    match (claim(owner, child, |_| false), child) {
        (NameAvailability::Taken, Some(child)) => Err(Stop::NameTaken { object: describe_object(child) }),
        (NameAvailability::Former, Some(child)) => Err(Stop::Former(describe_object(child))),
        _ => Ok(()),
    }
}

/// Returns child metadata with the live object's UID, so that only this object is changed.
fn changed(account: &ProviderServiceAccount, live: &impl Resource, cluster: &str) -> ObjectMeta {
    ObjectMeta { uid: live.uid(), ..child(account, account.name_any(), cluster) }
}

fn planned_role(account: &ProviderServiceAccount, live: Option<&Role>, cluster: &str) -> Option<Role> {
    let rules = Some(account.spec.rules.clone());
    match live {
        None => Some(Role { metadata: child(account, account.name_any(), cluster), rules }),
        Some(live) if live.rules.as_ref() == rules.as_ref() => None,
        Some(live) => Some(Role { metadata: changed(account, live, cluster), rules }),
    }
}

fn planned_binding(
    account: &ProviderServiceAccount,
    live: Option<&RoleBinding>,
    cluster: &str,
) -> Option<RoleBinding> {
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.name_any(),
        namespace: account.namespace(),
        api_group: None,
    };
    let role_ref =
        RoleRef { api_group: Some(RBAC.to_owned()), kind: "Role".to_owned(), name: account.name_any() };
    let subjects = Some(vec![subject]);
    let metadata = match live {
        Some(live) if live.subjects == subjects && live.role_ref == role_ref => return None,
        Some(live) => changed(account, live, cluster),
        None => child(account, account.name_any(), cluster),
    };
    Some(RoleBinding { metadata, role_ref, subjects })
}

/// Builds the token Secret. Its owner is the ServiceAccount, not the account: `clusterctl move` moves all Secrets that a moved
/// object owns, and Kubernetes deletes a token Secret if its ServiceAccount isn't in the same cluster.
fn token_secret(account: &ProviderServiceAccount, service_account: &ServiceAccount, cluster: &str) -> Secret {
    let name = names::account_token_secret(&account.name_any());
    let mut metadata = child(account, name, cluster);
    let owner = OwnerReference { block_owner_deletion: None, ..build_controller_reference(service_account) };
    metadata.owner_references = Some(vec![owner]);
    metadata.annotations = Some(BTreeMap::from([(TOKEN_OF.to_owned(), account.name_any())]));
    Secret { metadata, type_: Some(TOKEN_TYPE.to_owned()), ..Secret::default() }
}

/// Returns the workload cluster's Secret, or `None` if it is up to date. Returns the reason if the Secret can't be planned yet,
/// for example because the token is missing.
fn in_guest(account: &ProviderServiceAccount, facts: &Facts) -> Result<Option<Box<Secret>>, Stop> {
    let Children { service_account, token, .. } = &facts.children;
    let current = token.as_ref().zip(service_account.as_ref()).filter(|(token, of)| is_current(token, of));
    let Some(credentials) = current.and_then(|(token, _)| AccountCredentials::of(token)) else {
        let secret = names::account_token_secret(&account.name_any());
        return Err(Stop::Token { secret, made: token.is_none() });
    };
    let live = match &facts.guest {
        GuestFacts::Unneeded => return Ok(None),
        GuestFacts::Unreachable(why) => return Err(Stop::Unreachable(why.clone())),
        GuestFacts::Seen(live) => live.as_deref(),
    };
    if let Some(live) = live.filter(|live| !is_of(live, account)) {
        return Err(Stop::NameTaken { object: format!("in the cluster, {}", describe_object(live)) });
    }
    let has = |live: &Secret| AccountCredentials::of(live).is_some_and(|live| live == credentials);
    Ok((!live.is_some_and(has)).then(|| Box::new(guest_secret(account, credentials))))
}

fn guest_secret(account: &ProviderServiceAccount, credentials: AccountCredentials) -> Secret {
    let marked = (annotation::PROVIDER_SERVICE_ACCOUNT.to_owned(), mark(account));
    Secret {
        metadata: ObjectMeta {
            name: Some(account.spec.target_secret_name.clone()),
            namespace: Some(account.spec.target_namespace.clone()),
            annotations: Some(BTreeMap::from([marked])),
            ..ObjectMeta::default()
        },
        data: Some(credentials.into_data()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests;
