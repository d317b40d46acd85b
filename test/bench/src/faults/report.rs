//! The report over all runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::findings::Violations;

/// The report, with counts. If all runs succeed, `lost`, `duplicated`, `orphaned`, `stuck` and `leaks` are zero.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultReport {
    /// `exhaustive` or `seeded`.
    pub mode: &'static str,
    pub wire: &'static str,
    /// Workload runs.
    pub trials: u64,
    /// Injected faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Lost VMs and disks.
    pub lost: u64,
    /// Duplicated VMs.
    pub duplicated: u64,
    /// VMs, cluster modules, files and tasks without an owner.
    pub orphaned: u64,
    /// Runs that didn't reach a clean run's end state.
    pub stuck: u64,
    /// Secrets found in logs, objects and events.
    pub leaks: u64,
    /// Cases whose fault wasn't injected because the write or event didn't occur.
    pub missed: u64,
    pub seconds: f64,
    /// The failed runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedRun>,
}

/// One failed run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedRun {
    /// The flags that repeat the run.
    pub repeat: String,
    pub fault: String,
    /// The first cause, and further violations.
    pub causes: Vec<String>,
    /// The VM operator's log file.
    pub log: PathBuf,
}

impl FaultReport {
    /// Returns true if no violation was found.
    pub fn is_clean(&self) -> bool {
        self.lost + self.duplicated + self.orphaned + self.stuck + self.leaks == 0
    }

    /// Counts a failed run.
    pub fn count_failure(&mut self, findings: &Violations, failure: FailedRun) {
        let count = |list: &[String]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        self.lost += count(&findings.lost);
        self.duplicated += count(&findings.duplicated);
        self.orphaned += count(&findings.orphaned);
        if findings.is_empty() {
            self.stuck += 1;
        }
        tracing::error!(repeat = failure.repeat, fault = failure.fault, causes = ?failure.causes, log = %failure.log.display(), "failed");
        self.failures.push(failure);
    }

    /// Counts injected faults by kind.
    pub fn count_injected(&mut self, kind: &str, times: u64) {
        *self.faults.entry(kind.to_owned()).or_default() += times;
    }
}

/// Copies the log from byte `from` on to a new file in the temporary folder, and returns its path.
pub fn keep_log(log: &Path, from: u64, name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("vm-faults-{}", std::process::id()));
    let kept = folder.join(format!("{name}.log"));
    let text = read_from(log, from);
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&kept, text));
    if let Err(error) = written {
        tracing::warn!(%error, "the log is not kept");
    }
    kept
}

/// Reads the file from byte `from` on.
pub fn read_from(log: &Path, from: u64) -> Vec<u8> {
    let text = std::fs::read(log).unwrap_or_default();
    text.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or_default().to_vec()
}

/// Counts how often the secrets occur in the text.
pub fn count_leaks(text: &[u8], secrets: &[String]) -> u64 {
    let text = String::from_utf8_lossy(text);
    let found = secrets.iter().map(|secret| text.matches(secret.as_str()).count()).sum::<usize>();
    u64::try_from(found).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_wherever_they_are() {
        let secrets = ["hunter2".to_owned(), "token".to_owned()];
        assert_eq!(count_leaks(b"a hunter2b token\nhunter2", &secrets), 3);
        assert_eq!(count_leaks(b"nothing", &secrets), 0);
    }
}
