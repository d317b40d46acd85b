//! The ClusterRoleBindings of a guest: who may edit the namespace of a cluster administers the cluster.
//!
//! Kubernetes' roles `edit` and `admin` are the original's "Can Edit" and "Owner". Who has one of them in the namespace reads
//! the Secret with the guest's kubeconfig there, so that nobody gets more than they had.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::wanted::{Problem, WantedObjects};

/// The ClusterRoles that allow to edit a namespace.
const EDITORS: [&str; 2] = ["admin", "edit"];
const RBAC: &str = "rbac.authorization.k8s.io";
/// The kinds of subjects that are people.
const USER: &str = "User";
const GROUP: &str = "Group";
/// What the names of all bindings begin with.
const PREFIX: &str = "vmware-system-auth-sync-wcp";
/// Kubernetes' own users and groups: in the guest these are others than in the management cluster.
const OF_KUBERNETES: &str = "system:";
/// The most users and groups of one namespace that become administrators.
const MAX_PEOPLE: usize = 200;
/// The longest name of a user or group, in bytes.
const MAX_NAME: usize = 256;
/// So many bytes of a name, and of its domain, are in the name of its binding.
const MAX_SHOWN: usize = 64;

/// Whether the users and groups of a binding may edit its namespace.
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

/// The number of users and groups with bindings in a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct People {
    /// The users.
    pub users: usize,
    /// The groups. The number of their members is not known.
    pub groups: usize,
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

/// The ClusterRoleBindings of a guest in this namespace.
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
        problems.push(Problem::new(format!("Namespace {namespace}"), message));
    }
    if people.len() > MAX_PEOPLE {
        let message = format!(
            "{} users and groups have edit rights, but only the first {MAX_PEOPLE} by name become administrators of its clusters. Bind groups instead of users",
            people.len()
        );
        problems.push(Problem::new(format!("Namespace {namespace}"), message));
    }
    let documents = people.into_iter().take(MAX_PEOPLE).map(|person| document(namespace, person)).collect();
    WantedObjects::of(documents, problems)
}

/// Who a subject is, unless it is a program.
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

/// `PREFIX:NAMESPACE:group:DOMAIN:NAME` of a group `sso:NAME@DOMAIN`, with an empty domain of a name without one.
///
/// What a name of an object can't hold is a dash; then a digest of the whole keeps two names apart.
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
