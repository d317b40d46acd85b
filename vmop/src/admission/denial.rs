//! The reasons to deny a request, and the requesters that each reason stops.

use std::fmt;

/// A reason to deny a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    field: String,
    reason: String,
    weight: Weight,
}

/// The requesters that a denial stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// All requesters.
    Refusal,
    /// All requesters except programs (ServiceAccounts). The cause is another object, which may be created or changed later.
    Elsewhere,
    /// No requester. The denial is only a warning.
    Warning,
}

impl Denial {
    /// Creates a denial of a field's value for all requesters.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), weight: Weight::Refusal }
    }

    /// Creates a denial that is caused by another object. Programs only get a warning.
    pub(super) fn elsewhere(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { weight: Weight::Elsewhere, ..Self::new(field, reason) }
    }

    /// Creates a denial that doesn't stop anyone: every requester only gets a warning.
    pub(super) fn warning(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, ..Self::new(field, reason) }
    }

    /// Returns true if the denial stops the requester. If not, the requester gets a warning.
    pub fn stops(&self, asker: Asker) -> bool {
        match self.weight {
            Weight::Refusal => true,
            Weight::Elsewhere => !asker.program,
            Weight::Warning => false,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// The properties of the requester that the rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// True for administrators, who may change protected fields.
    pub privileged: bool,
    /// True for ServiceAccounts.
    pub program: bool,
}

impl Asker {
    /// Creates the requester from its user name and groups. `named` contains the provider configuration's privileged
    /// users.
    pub fn new(user: &str, groups: &[String], named: &[String]) -> Self {
        let in_group = |name: &str| groups.iter().any(|group| group == name);
        Self {
            privileged: in_group("system:masters")
                || in_group("kubeadm:cluster-admins")
                || user == "kubernetes-admin"
                || named.iter().any(|name| name == user),
            program: user.starts_with("system:serviceaccount:"),
        }
    }
}
