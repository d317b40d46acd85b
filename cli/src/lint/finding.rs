//! What is found in a manifest, and how it reads.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The manifest is refused, or does not mean what its author thinks.
    Error,
    /// The manifest is accepted, and something about it is likely to hurt.
    Warning,
    /// Worth knowing.
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
    /// The line it is about, from 1; 0 if there is none.
    pub line: u64,
    /// How bad it is.
    pub severity: FindingSeverity,
    /// The field it is about, as the manifest's version calls it.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
    /// What to do about it; may be empty.
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

/// Everything found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LintReport {
    /// The file, as its reader knows it.
    pub file: String,
    /// Everything found, by line.
    pub findings: Vec<Finding>,
    /// How many objects of kinds that can be checked are in it.
    pub checked: usize,
}

impl LintReport {
    /// How many findings of this severity there are.
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
