//! Renders Cluster API's manifests from its kustomize folders.
//!
//! Rendering needs Go's module cache and takes a second: it is done here, once, so that a warm start needs neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{Cache, make_private};
use super::go::{check, go, output, write_sources};
use super::module;
use super::progress::Progress;
use crate::error::{Doing, Result};
use crate::manifest;

/// Managers of Cluster API and the kustomize folder of each in its module.
const RENDERED: [(&str, &str); 3] = [
    ("capi-core", "core/config/default"),
    ("capi-kubeadm-bootstrap", "bootstrap/kubeadm/config/default"),
    ("capi-kubeadm-control-plane", "controlplane/kubeadm/config/default"),
];

/// To be raised when the rendering changes.
const RENDERING: &str = "manifests-1";

const WHAT: &str = "Cluster API's manifests";

/// Where Cluster API's manifests are kept.
pub(super) fn folder(cache: &Cache) -> PathBuf {
    cache.folder(&module::CAPI).join(RENDERING)
}

/// Whether they have been rendered.
pub(super) fn exist(cache: &Cache) -> bool {
    let folder = folder(cache);
    RENDERED.iter().all(|(name, _)| folder.join(format!("{name}.json")).is_file())
}

/// Renders each manager's kustomize folder, as `kubectl apply -k` would, into one JSON file.
pub(super) fn render(cache: &Cache, kustomize: &Path, progress: &dyn Progress) -> Result<()> {
    let _lock = cache.lock(progress)?;
    if exist(cache) {
        return Ok(());
    }
    check([WHAT].into_iter())?;
    progress.begin(WHAT, 1, 1);
    let sources = write_sources(cache, &module::CAPI)?;
    // They lie in Go's module cache only if somebody has built Cluster API there.
    output(go(&sources).args(["mod", "download", "sigs.k8s.io/cluster-api"]), WHAT)?;
    let list = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api"];
    let upstream = PathBuf::from(output(go(&sources).args(list), WHAT)?.trim());
    let folder = folder(cache);
    make_private(&folder)?;
    for (name, kustomization) in RENDERED {
        let yaml = output(Command::new(kustomize).arg(upstream.join(kustomization)), name)?;
        let documents = manifest::from_upstream(name, &yaml)?;
        let json = serde_json::to_vec(&documents).unwrap_or_default();
        let unfinished = folder.join(format!(".{name}"));
        fs::write(&unfinished, json).doing(|| format!("write {}", unfinished.display()))?;
        fs::rename(&unfinished, folder.join(format!("{name}.json")))
            .doing(|| format!("rename {}", unfinished.display()))?;
    }
    progress.end();
    Ok(())
}
