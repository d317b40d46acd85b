//! Reruns the tests that failed in a `cargo test` run, each alone. A test that succeeds now is printed as
//! `FLAKY NAME: first cause`. The exit status is 0 if all tests pass, otherwise 1.
//!
//!     cargo test --workspace --no-fail-fast 2>&1 | tee LOG
//!     cargo run -p rerun -- LOG

mod log;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs, path};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::log::{FailedTest, TestRun, failed_runs};

/// The timeout per test, in the format that `timeout` reads. Stories have shorter timeouts.
const DEADLINE: &str = "45m";

fn main() -> Result<ExitCode> {
    let logs: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let mut runs = Vec::new();
    for path in &logs {
        let log = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        runs.extend(failed_runs(&String::from_utf8_lossy(&log)));
    }
    if runs.is_empty() {
        bail!("no failed test is named in {logs:?}: the run failed for another reason");
    }
    let folders = package_folders()?;
    let mut all_pass = true;
    for run in &runs {
        all_pass &= rerun(run, &folders)?;
    }
    Ok(if all_pass { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reruns a program's failed tests. Returns true if all pass.
fn rerun(run: &TestRun, folders: &BTreeMap<PathBuf, PathBuf>) -> Result<bool> {
    if run.executable.as_os_str().is_empty() {
        println!("FAILED: documentation tests do not run again");
        return Ok(false);
    }
    let program = &path::absolute(&run.executable)?;
    let Some(folder) = folders.get(program) else {
        bail!("{} is not a test program of this workspace", program.display());
    };
    let mut all_pass = true;
    for FailedTest { name, cause } in &run.failed {
        let succeeds = run_tests(program, folder, std::slice::from_ref(name))?;
        println!("{} {name}: {cause}", if succeeds { "FLAKY" } else { "FAILED TWICE" });
        all_pass &= succeeds;
    }
    let unfinished = run.unfinished(&list(program, folder)?);
    // The unfinished tests aren't suspects, so they don't need to run alone.
    if !unfinished.is_empty() {
        println!("{} ended before {} of its tests", program.display(), unfinished.len());
        all_pass &= run_tests(program, folder, &unfinished)?;
    } else if run.failed.is_empty() {
        println!("FAILED {}, and names no test", program.display());
        all_pass = false;
    }
    Ok(all_pass)
}

/// Runs tests of a program, including ignored ones. Returns true if they pass.
fn run_tests(program: &Path, folder: &Path, names: &[String]) -> Result<bool> {
    println!("\n== again: {}", names.join(" "));
    let status = Command::new("timeout")
        .args(["--kill-after=30", DEADLINE])
        .arg(program)
        .args(["--exact", "--include-ignored"])
        .args(names)
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .stdin(Stdio::null())
        .status();
    Ok(status.with_context(|| format!("cannot run {}", program.display()))?.success())
}

/// Returns all test names in a program, except ignored tests.
fn list(program: &Path, folder: &Path) -> Result<Vec<String>> {
    let named = |ignored: bool| -> Result<Vec<String>> {
        let mut command = Command::new(program);
        command.arg("--list").args(ignored.then_some("--ignored")).current_dir(folder);
        let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(ToOwned::to_owned).collect())
    };
    let ignored = named(true)?;
    Ok(named(false)?.into_iter().filter(|name| !ignored.contains(name)).collect())
}

/// Returns each test program's package folder. Cargo runs the program there.
fn package_folders() -> Result<BTreeMap<PathBuf, PathBuf>> {
    let output = Command::new("cargo")
        .args(["test", "--workspace", "--no-run", "--quiet", "--message-format=json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo cannot list the test programs");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| package_folder(&message)).collect())
}

/// Returns the executable in a Cargo message and its package folder.
fn package_folder(message: &Value) -> Option<(PathBuf, PathBuf)> {
    let executable = message["executable"].as_str()?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some((executable.into(), folder.to_owned()))
}
