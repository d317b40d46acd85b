//! One rule, and what many rules say: that a field stays as it is.

/// One rule at one place of a kind's schema.
pub struct Rule {
    /// The kind.
    pub kind: &'static str,
    /// The versions it is for; empty for all.
    pub versions: &'static [&'static str],
    /// Where it stands: steps divided by dots, `[]` for the items of a list, empty for the top.
    pub path: &'static str,
    /// The CEL expression.
    pub expression: String,
    /// The message for the user.
    pub message: &'static str,
}

/// A rule of all versions.
pub(super) fn rule(kind: &'static str, path: &'static str, expression: &str, message: &'static str) -> Rule {
    Rule { kind, versions: &[], path, expression: expression.to_owned(), message }
}

/// Returns the rules of one path: pairs of an expression and its message.
pub(super) fn rules_at<const N: usize>(
    kind: &'static str,
    path: &'static str,
    rules: [(&str, &'static str); N],
) -> [Rule; N] {
    rules.map(|(expression, message)| rule(kind, path, expression, message))
}

/// A rule of these versions alone.
pub(super) fn only(versions: &'static [&'static str], rule: Rule) -> Rule {
    Rule { versions, ..rule }
}

/// The field never changes, and neither comes nor goes.
///
/// Every write of an object evaluates all its rules, those of the status too, and each look at a field costs the API
/// server as much as the field has siblings. So a rule looks but once where it can, and says first what nearly always
/// holds.
pub(super) fn fixed(field: &str) -> String {
    format!(
        "(has(self.{field}) ? has(oldSelf.{field}) && self.{field} == oldSelf.{field} : !has(oldSelf.{field}))"
    )
}

/// The field does not change once it is set.
pub(super) fn once_set(field: &str) -> String {
    format!("!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})")
}
