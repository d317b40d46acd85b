//! What came of all runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::findings::Findings;

/// The report; all five counts of what must never be are zero if all is well.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultReport {
    /// `exhaustive` or `seeded`.
    pub mode: &'static str,
    /// The wire to vCenter.
    pub wire: &'static str,
    /// Runs of the workload.
    pub trials: u64,
    /// Injected faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// VMs that are gone and should be there.
    pub lost: u64,
    /// VMs that are there twice.
    pub duplicated: u64,
    /// What belongs to nothing.
    pub orphaned: u64,
    /// Runs that did not come to what a clean run comes to.
    pub stuck: u64,
    /// Secrets in logs.
    pub leaks: u64,
    /// Cases whose fault was not injected, because the write or event did not.
    pub missed: u64,
    /// How long all of it took.
    pub seconds: f64,
    /// What failed, the first blocking cause of each, and how to repeat it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedRun>,
}

/// One run that failed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedRun {
    /// The flags that repeat it.
    pub repeat: String,
    /// The injected fault.
    pub fault: String,
    /// The first cause, and what else is wrong.
    pub causes: Vec<String>,
    /// What the VM operator logged.
    pub log: PathBuf,
}

impl FaultReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.lost + self.duplicated + self.orphaned + self.stuck + self.leaks == 0
    }

    /// Counts a run that failed.
    pub fn count_failure(&mut self, findings: &Findings, failure: FailedRun) {
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

    /// Counts injected faults of a kind.
    pub fn count_injected(&mut self, kind: &str, times: u64) {
        *self.faults.entry(kind.to_owned()).or_default() += times;
    }
}

/// What was logged since `from`, in a file of its own, and how many of the secrets are in it.
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

/// What a file holds after so many bytes.
pub fn read_from(log: &Path, from: u64) -> Vec<u8> {
    let text = std::fs::read(log).unwrap_or_default();
    text.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or_default().to_vec()
}

/// How often one of the secrets is in the text.
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
