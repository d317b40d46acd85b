//! Runs Go and other build commands as child processes.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{BuildCache, make_private};
use super::module::{self, Module};
use crate::error::{Error, OperationContext, Result};

/// Checks that Go is installed. `missing` lists the programs that Go would have to build.
pub(super) fn check(missing: impl Iterator<Item = &'static str>) -> Result<()> {
    let runs = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match runs {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::NoGo { missing: missing.map(str::to_owned).collect(), go: module::GO }),
    }
}

/// Writes the module's sources to the cache, and returns their folder. Its path contains a hash of the sources, so the
/// folder's content never changes.
pub(super) fn write_sources(cache: &BuildCache, module: &Module) -> Result<PathBuf> {
    if !module.is_complete() {
        return Err(Error::Build {
            tool: module.name.to_owned(),
            reason: format!("the folder of {} contains no Go module", module.name),
        });
    }
    let sources = cache.folder(module).join("src");
    make_private(&sources)?;
    module.write_to(&sources)?;
    Ok(sources)
}

/// Returns a Go command in a module's folder, without user settings that would change the result.
pub(super) fn go(folder: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(folder).env("CGO_ENABLED", "0").env("GOWORK", "off").stdin(Stdio::null());
    for foreign in ["GOOS", "GOARCH", "GOAMD64", "GOEXPERIMENT", "GO111MODULE"] {
        go.env_remove(foreign);
    }
    // The compiler spends much of its time on garbage collection. With a larger heap it collects rarely. The limit
    // protects small machines.
    for (setting, value) in [("GOGC", "400"), ("GOMEMLIMIT", "2GiB")] {
        if std::env::var_os(setting).is_none() {
            go.env(setting, value);
        }
    }
    go
}

/// Runs a command, and calls `on_line` with each line from its standard error. If the command fails, the error contains the last
/// 30 lines. `tool` names the program in errors.
pub(super) fn run(mut command: Command, tool: &str, mut on_line: impl FnMut(&str)) -> Result<()> {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().doing(|| format!("build {tool}"))?;
    let mut tail = VecDeque::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
        let line = line.doing(|| format!("build {tool}"))?;
        on_line(&line);
        if tail.len() == 30 {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    let status = child.wait().doing(|| format!("build {tool}"))?;
    if status.success() {
        return Ok(());
    }
    let mut reason = format!("{status}\n{}", Vec::from(tail).join("\n"));
    if reason.contains("requires go >=") {
        let _ = write!(
            reason,
            "\nInstall Go {} or later, or unset GOTOOLCHAIN so that Go fetches it",
            module::GO
        );
    }
    Err(Error::Build { tool: tool.to_owned(), reason })
}

/// Runs a command, and returns its standard output. If the command fails, the error contains its standard error.
pub(super) fn output(command: &mut Command, tool: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().doing(|| format!("run Go for {tool}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Build { tool: tool.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_shows_the_end_of_its_output() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "for i in $(seq 50); do echo line $i >&2; done; exit 3"]);
        let mut lines = 0;
        let error = run(failing, "etcd", |_| lines += 1).unwrap_err().to_string();
        assert_eq!(lines, 50);
        assert!(error.starts_with("cannot build etcd: exit status: 3\nline 21\n"), "{error}");
    }
}
