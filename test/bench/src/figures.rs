//! Stored figures: the last measurements, each with its commit. docs/performance.md shows them as a table.

mod table;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use table::with_table;

/// The repository's figures file.
pub const FILE: &str = "docs/contributing/figures.json";

/// The keys of the stored figures, each with the JSON pointer to its value in a report. For an object, the sum of its
/// numbers is stored.
pub type Sources = [(&'static str, &'static str)];

/// Stored figures, by the run that measured them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(pub BTreeMap<String, MeasuredRun>);

/// One run's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    /// The commit that was measured.
    pub commit: String,
    /// The run's date, such as `2026-11-24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The figures by key.
    pub values: BTreeMap<String, f64>,
}

impl Figures {
    /// Reads a figures file. A missing file counts as empty.
    pub fn read(file: &Path) -> Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => {
                serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// Flags of a program that measures.
#[derive(Clone, Debug, Default, Args)]
pub struct KeepFlags {
    /// A file that keeps the figures, such as docs/contributing/figures.json. Those of an earlier run of the same kind are replaced.
    #[arg(long, value_name = "FILE")]
    pub figures: Option<PathBuf>,

    /// The commit that is measured; by default HEAD, which must have everything but changes in docs.
    #[arg(long, value_name = "COMMIT", requires = "figures")]
    pub commit: Option<String>,
}

impl KeepFlags {
    /// Returns the [`Keeper`] for these flags, or `None` without `--figures`. Fails before the measurement if the
    /// commit is unknown.
    pub fn keeper(&self) -> Result<Option<Keeper>> {
        let Some(file) = self.figures.clone() else { return Ok(None) };
        if self.commit.is_none() {
            let changed = git(&["diff", "--name-only", "HEAD"])?;
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let matters = |path: &&str| !path.starts_with("docs/") && !path.ends_with(name);
            let changed: Vec<_> = changed.lines().filter(matters).collect();
            ensure!(
                changed.is_empty(),
                "figures need a commit, and HEAD lacks changes of {}. Commit them, or name the commit that is measured by --commit",
                changed.join(", ")
            );
        }
        let commit = self.commit.as_deref().unwrap_or("HEAD");
        let commit = git(&["rev-parse", "--verify", "--short=7", &format!("{commit}^{{commit}}")])?;
        Ok(Some(Keeper { file, commit }))
    }
}

/// Stores one commit's figures in a file.
#[derive(Clone, Debug)]
pub struct Keeper {
    file: PathBuf,
    commit: String,
}

impl Keeper {
    /// Stores a report's figures, and replaces the last run with this name.
    pub fn keep(&self, run: &str, report: &impl Serialize, sources: &Sources) -> Result<()> {
        let report = serde_json::to_value(report)?;
        let values = sources
            .iter()
            .filter_map(|(key, place)| Some(((*key).to_owned(), number(report.pointer(place)?)?)))
            .collect();
        self.keep_values(run, values)
    }

    /// Stores these figures, and replaces the last run with this name.
    pub fn keep_values(&self, run: &str, values: BTreeMap<String, f64>) -> Result<()> {
        let mut figures = Figures::read(&self.file)?;
        let rounded =
            values.into_iter().map(|(key, value)| (key, (value * 1000.0).round() / 1000.0)).collect();
        let date = Some(Timestamp::now().strftime("%Y-%m-%d").to_string());
        figures.0.insert(run.to_owned(), MeasuredRun { commit: self.commit.clone(), date, values: rounded });
        figures.write(&self.file)
    }
}

/// Returns the number, or the sum of the object's numbers.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Object(counts) => counts.values().map(Value::as_f64).sum(),
        other => other.as_f64(),
    }
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).output().context("cannot run git")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", args.join(" "), error.trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOURCES: &Sources = &[("memory", "/peak"), ("writes", "/writes"), ("ratio", "/ratio")];

    #[test]
    fn a_run_replaces_the_figures_of_its_kind_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.json");
        let keeper = |commit: &str| Keeper { file: file.clone(), commit: commit.to_owned() };
        keeper("aaaaaa1").keep("one", &json!({"peak": 1.0, "ratio": 2.0}), SOURCES).unwrap();
        keeper("aaaaaa1").keep("two", &json!({"peak": 3.0}), SOURCES).unwrap();
        keeper("bbbbbb2")
            .keep("one", &json!({"peak": 4.000_44, "writes": {"PUT": 2, "POST": 3}}), SOURCES)
            .unwrap();

        let figures = Figures::read(&file).unwrap().0;
        let values =
            |pairs: &[(&str, f64)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        assert_eq!(figures["one"].commit, "bbbbbb2");
        assert_eq!(figures["one"].values, values(&[("memory", 4.0), ("writes", 5.0)]));
        assert_eq!(
            (&*figures["two"].commit, &figures["two"].values),
            ("aaaaaa1", &values(&[("memory", 3.0)]))
        );
    }

    #[test]
    fn a_file_that_is_not_there_has_no_figures_and_a_broken_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.json");
        assert_eq!(Figures::read(&file).unwrap(), Figures::default());
        std::fs::write(&file, "{").unwrap();
        assert!(Figures::read(&file).unwrap_err().to_string().contains("figures.json"));
    }
}
