//! A reason why an object is refused, and who is stopped by it.

use std::fmt;

/// One reason why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    field: String,
    reason: String,
    weight: Weight,
}

/// Whom a reason stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Everybody.
    Refusal,
    /// All but programs: it is due to another object, which may still come or change.
    Elsewhere,
    /// Nobody: it is only worth a warning.
    Warning,
}

impl Denial {
    /// A refusal of a field's value, for everybody.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), weight: Weight::Refusal }
    }

    /// A refusal that is due to another object, and stops all but programs.
    pub(super) fn elsewhere(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { weight: Weight::Elsewhere, ..Self::new(field, reason) }
    }

    /// A warning, which stops nobody.
    pub(super) fn warning(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, ..Self::new(field, reason) }
    }

    /// Whether it stops this one: a program is only warned of what other objects lack.
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

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// An administrator, who may do what is closed to others.
    pub privileged: bool,
    /// A program: a ServiceAccount.
    pub program: bool,
}

impl Asker {
    /// A user with groups; `named` are the privileged users of the provider configuration.
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
