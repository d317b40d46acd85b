//! Renders Cluster API's manifests from its kustomize folders.
//!
//! Rendering needs Go's module cache and takes a second. The result is cached, so that a warm start doesn't render.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{Cache, make_private};
use super::go::{check, go, output, write_sources};
use super::module::{self, Module};
use super::progress::Progress;
use crate::error::{Doing, Error, Result};
use components::catalogue::INVENTORY;
use components::manifest;
use components::plan::Upstream;
use serde_json::Value;

/// Manifests to render: their name, the embedded module that depends on the upstream Go module, the upstream Go
/// module's path, and the kustomize folder in the upstream Go module.
struct Rendered {
    name: &'static str,
    module: &'static Module,
    path: &'static str,
    folder: &'static str,
}

const CLUSTER_API: &str = "sigs.k8s.io/cluster-api";
const RENDERED: [Rendered; 5] = [
    Rendered { name: "capi-core", module: &module::CAPI, path: CLUSTER_API, folder: "core/config/default" },
    Rendered {
        name: "capi-kubeadm-bootstrap",
        module: &module::CAPI,
        path: CLUSTER_API,
        folder: "bootstrap/kubeadm/config/default",
    },
    Rendered {
        name: "capi-kubeadm-control-plane",
        module: &module::CAPI,
        path: CLUSTER_API,
        folder: "controlplane/kubeadm/config/default",
    },
    Rendered {
        name: "capi-ipam-in-cluster",
        module: &module::IPAM_MODULE,
        path: "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
        folder: "config/default",
    },
    // The inventory in which clusterctl finds installed providers.
    Rendered {
        name: INVENTORY,
        module: &module::CAPI,
        path: CLUSTER_API,
        folder: "cmd/clusterctl/config/crd",
    },
];

/// The rendering version. Increase it when the rendering changes.
const RENDERING: &str = "manifests-2";

const WHAT: &str = "Cluster API's manifests";

/// Returns the folder for Cluster API's manifests.
pub(super) fn folder(cache: &Cache) -> PathBuf {
    cache.folder(&module::CAPI).join(format!("{RENDERING}-{}", module::IPAM_MODULE.folder()))
}

/// Returns true if all manifests have been rendered.
pub(super) fn exist(cache: &Cache) -> bool {
    let folder = folder(cache);
    RENDERED.iter().all(|one| folder.join(format!("{}.json", one.name)).is_file())
}

/// Reads the manifests that [`render`] has written, by name.
pub(super) fn read(cache: &Cache) -> Result<Upstream> {
    let folder = folder(cache);
    let read = |one: &Rendered| Ok((one.name.to_owned(), read_documents(&folder, one.name)?));
    RENDERED.iter().map(read).collect()
}

/// Reads the rendered manifests `name` from `folder`.
pub(crate) fn read_documents(folder: &Path, name: &str) -> Result<Vec<Value>> {
    let path = folder.join(format!("{name}.json"));
    let text = fs::read(&path).doing(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| Error::Manifest {
        what: path.display().to_string(),
        reason: format!("{error}. Remove the file; it is then created again"),
    })
}

/// Renders each manager's kustomize folder into one JSON file, as `kubectl apply -k` would.
pub(super) fn render(cache: &Cache, kustomize: &Path, progress: &dyn Progress) -> Result<()> {
    let _lock = cache.lock(progress)?;
    if exist(cache) {
        return Ok(());
    }
    check([WHAT].into_iter())?;
    progress.begin(WHAT, 1, 1);
    let folder = folder(cache);
    make_private(&folder)?;
    for Rendered { name, module, path, folder: kustomization } in RENDERED {
        let sources = write_sources(cache, module)?;
        // Go's module cache contains the manifests only after the module was downloaded or built.
        output(go(&sources).args(["mod", "download", path]), WHAT)?;
        let list = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", path];
        let upstream = PathBuf::from(output(go(&sources).args(list), WHAT)?.trim());
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
