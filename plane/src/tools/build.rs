//! Builds programs from the Go modules, and renders Cluster API's manifests from their kustomize folders.
//!
//! Rendering needs Go's module cache and takes a second: it is done here, once, so that a warm start needs neither.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Tool;
use super::cache::{Cache, make_private};
use super::module::{self, Module};
use super::progress::Progress;
use crate::error::{Doing, Error, Result};
use crate::manifest;

/// Managers of Cluster API and the kustomize folder of each in its module.
pub(crate) const RENDERED: [(&str, &str); 3] = [
    ("capi-core", "core/config/default"),
    ("capi-kubeadm-bootstrap", "bootstrap/kubeadm/config/default"),
    ("capi-kubeadm-control-plane", "controlplane/kubeadm/config/default"),
];

/// To be raised when the rendering changes.
const RENDERING: &str = "manifests-1";

/// Where Cluster API's manifests are kept.
pub(super) fn manifests(cache: &Cache) -> PathBuf {
    cache.folder(&module::CAPI).join(RENDERING)
}

/// Whether they have been rendered.
pub(super) fn manifests_exist(cache: &Cache) -> bool {
    let folder = manifests(cache);
    RENDERED.iter().all(|(name, _)| folder.join(format!("{name}.json")).is_file())
}

/// Builds what is missing, and notes in `paths` where it is.
pub(super) fn build(
    cache: &Cache,
    missing: &[&'static Tool],
    paths: &mut BTreeMap<&'static str, PathBuf>,
    progress: &dyn Progress,
) -> Result<()> {
    let _lock = cache.lock(progress)?;
    // Another process may have built some while this one waited for the lock.
    let wanted: Vec<_> =
        missing.iter().filter(|tool| !cache.folder(&tool.module).join(tool.name).is_file()).collect();
    check_go(&wanted, manifests_exist(cache))?;
    for (index, tool) in wanted.iter().enumerate() {
        progress.begin(tool.name, index + 1, wanted.len());
        build_one(cache, tool, progress)?;
        progress.end();
    }
    for tool in missing {
        paths.insert(tool.name, cache.folder(&tool.module).join(tool.name));
    }
    if !manifests_exist(cache) {
        progress.begin("Cluster API's manifests", 1, 1);
        let kubectl = paths.get("kubectl").cloned().unwrap_or_default();
        render(cache, &kubectl)?;
        progress.end();
    }
    Ok(())
}

fn check_go(wanted: &[&&Tool], rendered: bool) -> Result<()> {
    let mut missing: Vec<_> = wanted.iter().map(|tool| tool.name.to_owned()).collect();
    if !rendered {
        missing.push("Cluster API's manifests".to_owned());
    }
    let runs = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match runs {
        Ok(status) if status.success() => Ok(()),
        _ if missing.is_empty() => Ok(()),
        _ => Err(Error::NoGo { missing, go: module::GO }),
    }
}

fn build_one(cache: &Cache, tool: &Tool, progress: &dyn Progress) -> Result<()> {
    let folder = cache.folder(&tool.module);
    let sources = sources(cache, &tool.module)?;
    // Only a whole program gets its name, even if this process is killed.
    let unfinished = folder.join(format!(".{}", tool.name));
    let mut go = go(&sources);
    go.args(["build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"])
        .arg(format!("-ldflags={}", tool.module.ldflags()))
        .arg("-o")
        .arg(&unfinished)
        .arg(tool.package);
    run(go, tool.name, |line| progress.advance(line))?;
    let finished = folder.join(tool.name);
    fs::rename(&unfinished, &finished).doing(|| format!("rename {}", unfinished.display()))
}

/// Writes the module's sources into the cache; the folder's name holds their hash, so they never differ.
fn sources(cache: &Cache, module: &Module) -> Result<PathBuf> {
    if !module.is_complete() {
        return Err(Error::Build {
            tool: module.name.to_owned(),
            reason: format!("hack/tools/{} holds no Go module", module.name),
        });
    }
    let sources = cache.folder(module).join("src");
    make_private(&sources)?;
    module.write_to(&sources)?;
    Ok(sources)
}

/// Go, in a module's folder, with nothing of the user's set-up that would change the outcome.
fn go(folder: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(folder).env("CGO_ENABLED", "0").env("GOWORK", "off").stdin(Stdio::null());
    for foreign in ["GOOS", "GOARCH", "GO111MODULE"] {
        go.env_remove(foreign);
    }
    go
}

/// Runs a tool, handing over what it says on standard error line by line; the end of that explains a failure.
fn run(mut command: Command, tool: &str, mut said: impl FnMut(&str)) -> Result<()> {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().doing(|| format!("build {tool}"))?;
    let mut tail = VecDeque::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
        let line = line.doing(|| format!("build {tool}"))?;
        said(&line);
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

/// Renders each manager's kustomize folder, as `kubectl apply -k` would, into one JSON file.
fn render(cache: &Cache, kubectl: &Path) -> Result<()> {
    let sources = sources(cache, &module::CAPI)?;
    let listed = output(
        go(&sources).args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api"]),
        "Cluster API's manifests",
    )?;
    let upstream = PathBuf::from(listed.trim());
    let folder = manifests(cache);
    make_private(&folder)?;
    for (name, kustomization) in RENDERED {
        let yaml = output(Command::new(kubectl).arg("kustomize").arg(upstream.join(kustomization)), name)?;
        let documents = manifest::from_upstream(name, &yaml)?;
        let json = serde_json::to_vec(&documents).unwrap_or_default();
        let unfinished = folder.join(format!(".{name}"));
        fs::write(&unfinished, json).doing(|| format!("write {}", unfinished.display()))?;
        fs::rename(&unfinished, folder.join(format!("{name}.json")))
            .doing(|| format!("rename {}", unfinished.display()))?;
    }
    Ok(())
}

fn output(command: &mut Command, tool: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().doing(|| format!("render {tool}"))?;
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
    fn a_failed_build_tells_the_end_of_what_was_said() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "for i in $(seq 50); do echo line $i >&2; done; exit 3"]);
        let mut lines = 0;
        let error = run(failing, "etcd", |_| lines += 1).unwrap_err().to_string();
        assert_eq!(lines, 50);
        assert!(error.starts_with("cannot build etcd: exit status: 3\nline 21\n"), "{error}");
    }
}
