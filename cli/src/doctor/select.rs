//! Selects the checks to run. `--only` and `--skip` accept codes and prefixes.

use anyhow::{Result, bail};
use kit::diagnosis::Check;

/// The selected checks.
pub struct CheckSelection<'a> {
    only: &'a [String],
    skip: &'a [String],
}

impl<'a> CheckSelection<'a> {
    /// Creates a selection from codes and prefixes. Fails if a code or prefix doesn't match any check.
    pub fn new(checks: &[Check], only: &'a [String], skip: &'a [String]) -> Result<Self> {
        for code in only.iter().chain(skip) {
            if !checks.iter().any(|check| check.code.starts_with(code.as_str())) {
                let codes: Vec<_> = checks.iter().map(|check| check.code).collect();
                bail!("check {code} does not exist; the checks are {}", codes.join(", "));
            }
        }
        Ok(Self { only, skip })
    }

    /// Returns true if `skip` doesn't match the check, and `only` matches it or is empty.
    pub fn has(&self, check: Check) -> bool {
        let among = |codes: &[String]| codes.iter().any(|code| check.code.starts_with(code.as_str()));
        (self.only.is_empty() || among(self.only)) && !among(self.skip)
    }
}
