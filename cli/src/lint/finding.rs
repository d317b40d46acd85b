//! Findings about a manifest, and their text format.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The manifest is refused, or doesn't have the effect that its author expects.
    Error,
    /// The manifest is accepted, but is likely to cause problems.
    Warning,
    /// The finding is only information.
    Note,
}

impl fmt::Display for FindingSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One finding about a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line number, from 1. It is 0 if the finding isn't about a line.
    pub line: u64,
    pub severity: FindingSeverity,
    /// The field, as the manifest's API version names it.
    pub field: String,
    pub reason: String,
    /// The remedy. It may be empty.
    pub remedy: String,
}

impl Finding {
    pub(super) fn new(
        severity: FindingSeverity,
        line: u64,
        field: &str,
        reason: String,
        remedy: String,
    ) -> Self {
        Self { line, severity, field: field.to_owned(), reason, remedy }
    }

    pub(super) fn error(
        line: u64,
        field: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(FindingSeverity::Error, line, field, reason.into(), remedy.into())
    }

    pub(super) fn warning(
        line: u64,
        field: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(FindingSeverity::Warning, line, field, reason.into(), remedy.into())
    }

    pub(super) fn note(line: u64, field: &str, reason: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Note, line, field, reason.into(), String::new())
    }
}

/// The findings about one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LintReport {
    /// The file's name in messages.
    pub file: String,
    /// The findings, sorted by line.
    pub findings: Vec<Finding>,
    /// The number of objects that were checked because their kind is known.
    pub checked: usize,
}

impl LintReport {
    /// Returns the number of findings with this severity.
    pub fn count(&self, severity: FindingSeverity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

impl fmt::Display for LintReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { line, severity, field, reason, remedy } in &self.findings {
            write!(f, "{}:{line}: {severity}: ", self.file)?;
            if !field.is_empty() {
                write!(f, "{field}: ")?;
            }
            write!(f, "{reason}.")?;
            if !remedy.is_empty() {
                write!(f, " {remedy}.")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
