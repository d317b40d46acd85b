//! A workload cluster's ClusterRoleBindings: users who can edit the cluster's namespace become cluster administrators.
//!
//! Kubernetes' roles `edit` and `admin` correspond to "Can Edit" and "Owner" in vSphere with Tanzu. Users with either role can
//! read the Secret that contains the cluster's kubeconfig, so the bindings don't grant additional rights.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::wanted::{ObjectProblem, WantedObjects};

/// The ClusterRoles that allow editing a namespace.
const EDITORS: [&str; 2] = ["admin", "edit"];
const RBAC: &str = "rbac.authorization.k8s.io";
/// The kind of a subject that is a user.
const USER: &str = "User";
/// The kind of a subject that is a group.
const GROUP: &str = "Group";
/// The prefix of the names of all bindings.
const PREFIX: &str = "vmware-system-auth-sync-wcp";
/// The prefix of Kubernetes' built-in users and groups. In the workload cluster, these names refer to different subjects than
/// in the management cluster.
const OF_KUBERNETES: &str = "system:";
/// The maximum number of users and groups in a namespace that become administrators.
const MAX_PEOPLE: usize = 200;
/// The maximum length of a user or group name, in bytes.
const MAX_NAME: usize = 256;
/// The maximum length, in bytes, of the user or group name within a binding name. The domain has the same limit.
const MAX_SHOWN: usize = 64;

/// Returns true if a binding's subjects can edit its namespace.
pub fn makes_administrators(binding: &RoleBinding) -> bool {
    let role = &binding.role_ref;
    role.kind == "ClusterRole" && EDITORS.contains(&role.name.as_str())
}

/// A user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Person<'a> {
    kind: &'a str,
    name: &'a str,
}

/// The number of users and groups that get bindings in a workload cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct People {
    pub users: usize,
    /// The number of groups. The number of their members isn't known.
    pub groups: usize,
}

impl fmt::Display for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, one: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {one}s")),
        };
        let parts = [count(self.users, "user"), count(self.groups, "group")];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

/// Counts the users and groups that these bindings make administrators.
pub fn count(bindings: &[Arc<RoleBinding>]) -> People {
    let people: Vec<_> = people(bindings)
        .into_iter()
        .filter(|person| person.name.len() <= MAX_NAME)
        .take(MAX_PEOPLE)
        .collect();
    let groups = people.iter().filter(|person| person.kind == GROUP).count();
    People { users: people.len() - groups, groups }
}

fn people(bindings: &[Arc<RoleBinding>]) -> BTreeSet<Person<'_>> {
    let bindings = bindings.iter().filter(|binding| makes_administrators(binding));
    let subjects = bindings.flat_map(|binding| binding.subjects.as_deref().unwrap_or_default());
    subjects.filter_map(person).collect()
}

/// Returns the ClusterRoleBindings for workload clusters in this namespace.
pub fn wanted(namespace: &str, bindings: &[Arc<RoleBinding>]) -> WantedObjects {
    let (people, long): (Vec<_>, Vec<_>) =
        people(bindings).into_iter().partition(|person| person.name.len() <= MAX_NAME);
    let mut problems = Vec::new();
    if let Some(person) = long.first() {
        let message = format!(
            "a {} with edit rights has a name of {} bytes; the limit is {MAX_NAME}. Bind a group with a shorter name",
            person.kind,
            person.name.len()
        );
        problems.push(ObjectProblem::new(format!("Namespace {namespace}"), message));
    }
    if people.len() > MAX_PEOPLE {
        let message = format!(
            "{} users and groups have edit rights, but only the first {MAX_PEOPLE} by name become administrators of its clusters. Bind groups instead of users",
            people.len()
        );
        problems.push(ObjectProblem::new(format!("Namespace {namespace}"), message));
    }
    let documents = people.into_iter().take(MAX_PEOPLE).map(|person| document(namespace, person)).collect();
    WantedObjects::of(documents, problems)
}

/// Returns the user or group that a subject names, or `None` for service accounts and for Kubernetes' own users and groups.
fn person(subject: &Subject) -> Option<Person<'_>> {
    let Subject { api_group, kind, name, namespace: _ } = subject;
    let is_rbac = api_group.as_deref().is_none_or(|group| group.is_empty() || group == RBAC);
    let is_person = is_rbac && [USER, GROUP].contains(&kind.as_str());
    (is_person && !name.is_empty() && !name.starts_with(OF_KUBERNETES)).then_some(Person { kind, name })
}

fn document(namespace: &str, person: Person<'_>) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": binding_name(namespace, person)},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": person.kind, "name": person.name}],
    })
}

/// Returns `PREFIX:NAMESPACE:KIND:DOMAIN:NAME` for a user or group `sso:NAME@DOMAIN`. For other names, the domain is empty.
///
/// Replaces characters that object names can't contain with dashes, and cuts off long parts. If this changes the name, appends
/// a digest to keep it unique.
fn binding_name(namespace: &str, person: Person<'_>) -> String {
    let of_sso = person.name.strip_prefix("sso:").and_then(|name| name.rsplit_once('@'));
    let (name, domain) = of_sso.unwrap_or((person.name, ""));
    let fits = |part: &str| part.len() <= MAX_SHOWN && part.bytes().all(is_plain);
    let is_exact = !name.is_empty() && (of_sso.is_none() || !domain.is_empty()) && fits(name) && fits(domain);
    let shown = |part: &str| -> String {
        part.bytes().take(MAX_SHOWN).map(|b| if is_plain(b) { char::from(b) } else { '-' }).collect()
    };
    let kind = person.kind.to_ascii_lowercase();
    let readable = format!("{PREFIX}:{namespace}:{kind}:{}:{}", shown(domain), shown(name));
    if is_exact {
        return readable;
    }
    format!("{readable}:{}", URL_SAFE_NO_PAD.encode(&Sha256::digest(person.name)[..9]))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

#[cfg(test)]
mod tests;
