//! One reason why a cluster is refused, as people read it.

use std::fmt;

/// One reason why a cluster is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldDenial {
    /// The field at fault, such as `spec.topology.controlPlane.replicas`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl FieldDenial {
    pub(crate) fn new(
        field: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), reason: reason.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for FieldDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}.", self.field, self.reason, self.remedy)
    }
}
