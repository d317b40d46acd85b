//! Which checks are run: `--only` and `--skip` take codes and their beginnings.

use anyhow::{Result, bail};
use kit::diagnosis::Check;

/// The checks that are wanted.
pub struct Selection<'a> {
    only: &'a [String],
    skip: &'a [String],
}

impl<'a> Selection<'a> {
    /// Fails if a code stands for no check.
    pub fn new(checks: &[Check], only: &'a [String], skip: &'a [String]) -> Result<Self> {
        for code in only.iter().chain(skip) {
            if !checks.iter().any(|check| check.code.starts_with(code.as_str())) {
                let codes: Vec<_> = checks.iter().map(|check| check.code).collect();
                bail!("check {code} does not exist; the checks are {}", codes.join(", "));
            }
        }
        Ok(Self { only, skip })
    }

    /// Whether the check is wanted.
    pub fn has(&self, check: Check) -> bool {
        let among = |codes: &[String]| codes.iter().any(|code| check.code.starts_with(code.as_str()));
        (self.only.is_empty() || among(self.only)) && !among(self.skip)
    }
}
