//! Parses `cargo test --no-fail-fast` output and finds the failed tests.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The marker that a story prints before it aborts a test program whose thread it blocks.
const HANGS: &str = "HANGING STORY ";

/// A test program in Cargo's output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestRun {
    /// The executable. Empty for doc tests, which don't have one.
    pub executable: PathBuf,
    /// The failed tests, each with its panic message's first line.
    pub failed: Vec<FailedTest>,
    /// The tests that passed or were ignored.
    pub finished: BTreeSet<String>,
    /// The number of tests that the program began to run.
    pub begun: usize,
    /// True if the program printed its result, so all its tests have finished.
    pub has_result: bool,
    /// True if Cargo reports that the program failed.
    pub is_failed: bool,
}

impl TestRun {
    /// Returns a test's failure, and adds one if the test doesn't have one yet.
    fn failure(&mut self, name: &str) -> &mut FailedTest {
        let known = self.failed.iter().position(|failure| failure.name == name);
        let index = known.unwrap_or_else(|| {
            self.failed.push(FailedTest { name: name.to_owned(), cause: "it printed no cause".to_owned() });
            self.failed.len() - 1
        });
        &mut self.failed[index]
    }

    /// Returns the listed tests that neither finished nor failed because the program ended early.
    pub fn unfinished(&self, listed: &[String]) -> Vec<String> {
        if self.has_result || self.finished.len() + self.failed.len() >= self.begun {
            return Vec::new();
        }
        let is_known = |name: &String| {
            self.finished.contains(name) || self.failed.iter().any(|failure| failure.name == *name)
        };
        listed.iter().filter(|name| !is_known(name)).cloned().collect()
    }
}

/// A failed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTest {
    /// The name that the test program lists.
    pub name: String,
    /// The panic message's first line.
    pub cause: String,
}

/// Returns the failed test programs.
pub fn failed_runs(log: &str) -> Vec<TestRun> {
    let mut runs: Vec<TestRun> = Vec::new();
    let mut part = Part::Progress;
    for line in log.lines() {
        if let Some(executable) = started(line) {
            runs.push(TestRun { executable, ..TestRun::default() });
            part = Part::Progress;
        }
        let Some(run) = runs.last_mut() else { continue };
        part = part.read(line, run);
    }
    runs.retain(|run| run.is_failed);
    runs
}

/// Returns the executable that Cargo starts at this line. It is empty for doc tests.
fn started(line: &str) -> Option<PathBuf> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(PathBuf::new());
    }
    let (_, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    Some(path.into())
}

/// The part of a program's output that contains the current line.
enum Part {
    /// One line for each finished test.
    Progress,
    /// A failed test's output, up to its panic message.
    Output(String),
    /// The line after `panicked at`, which contains the message.
    Message(String),
}

impl Part {
    fn read(self, line: &str, run: &mut TestRun) -> Self {
        if line.starts_with("error: ") && line.contains("test failed, to rerun pass") {
            run.is_failed = true;
            return Self::Progress;
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            run.failure(name);
            return Self::Output(name.to_owned());
        }
        match self {
            Self::Output(name) if line.contains(" panicked at ") => Self::Message(name),
            Self::Message(name) => {
                line.clone_into(&mut run.failure(&name).cause);
                Self::Progress
            }
            Self::Output(name) => Self::Output(name),
            Self::Progress => {
                read_progress(line, run);
                Self::Progress
            }
        }
    }
}

/// Parses a progress line.
fn read_progress(line: &str, run: &mut TestRun) {
    if let Some((name, cause)) = line.strip_prefix(HANGS).and_then(|rest| rest.split_once(": ")) {
        cause.clone_into(&mut run.failure(name).cause);
    } else if let Some(count) = line.strip_prefix("running ") {
        run.begun = count.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default();
    } else if line.starts_with("test result: ") {
        run.has_result = true;
    } else if let Some((name, outcome)) =
        line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
    {
        if outcome == "ok" || outcome.starts_with("ignored") {
            run.finished.insert(name.to_owned());
        } else if outcome == "FAILED" {
            run.failure(name);
        }
    }
}
