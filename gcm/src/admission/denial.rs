//! A violated rule, as shown to users.

use std::fmt;

/// A field that violates a rule, with the reason and the remedy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldDenial {
    /// The faulty field, such as `spec.topology.controlPlane.replicas`.
    pub field: String,
    pub reason: String,
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
