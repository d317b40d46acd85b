//! The type for a validation rule, and functions that create common rules.

/// A validation rule at one path in a kind's schema.
pub struct Rule {
    /// The kind that the rule applies to.
    pub kind: &'static str,
    /// The versions that the rule applies to. Empty for all versions.
    pub versions: &'static [&'static str],
    /// The path in the schema, with dots between steps, and `[]` for list items. Empty for the root.
    pub path: &'static str,
    /// The CEL expression.
    pub expression: String,
    /// The error message for the user.
    pub message: &'static str,
}

/// Returns a rule for all versions.
pub(super) fn rule(kind: &'static str, path: &'static str, expression: &str, message: &'static str) -> Rule {
    Rule { kind, versions: &[], path, expression: expression.to_owned(), message }
}

/// Returns the rules for one path from pairs of an expression and its message.
pub(super) fn rules_at<const N: usize>(
    kind: &'static str,
    path: &'static str,
    rules: [(&str, &'static str); N],
) -> [Rule; N] {
    rules.map(|(expression, message)| rule(kind, path, expression, message))
}

/// Limits a rule to these versions.
pub(super) fn only(versions: &'static [&'static str], rule: Rule) -> Rule {
    Rule { versions, ..rule }
}

/// Returns an expression that makes a field immutable: it can't be changed, added or removed.
///
/// Every write, including a status write, evaluates all rules of an object, and each access to a field costs the API server time
/// in proportion to the number of sibling fields. Therefore the expression accesses the field as few times as possible, and
/// starts with the most common case.
pub(super) fn fixed(field: &str) -> String {
    format!(
        "(has(self.{field}) ? has(oldSelf.{field}) && self.{field} == oldSelf.{field} : !has(oldSelf.{field}))"
    )
}

/// Returns an expression that makes a field immutable once it is set.
pub(super) fn once_set(field: &str) -> String {
    format!("!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})")
}
