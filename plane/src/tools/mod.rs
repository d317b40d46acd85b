//! The programs that the stack runs, and where they come from.
//!
//! A program is taken, in this order, from an explicit path, from the folder KUBEBUILDER_ASSETS, from PATH (both
//! only if its version fits), and from a cache folder. What is still missing is built from Go modules that are part of
//! this program, once per user and version. When nothing is missing, Go is not run.

mod build;
mod cache;
mod dependencies;
mod estimate;
mod find;
mod go;
mod manifests;
mod module;
mod progress;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use cache::folder as cache_folder;
pub use dependencies::{Dependency, dependencies, go_version};
pub use module::{CLUSTER_API, ETCD, GO, IPAM, KUBERNETES, Module};
pub use progress::{Progress, progress};
pub use tool::{CLUSTERCTL, ETCD_SERVER, KUBEADM, KUBECTL, Tool, managers, names};

pub(crate) use manifests::read_documents;

use crate::error::{Error, Result};
use cache::Cache;
use components::plan::Upstream;
use tool::{CONTROL_PLANE, KUSTOMIZE};

/// Where the programs of the stack lie.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The store.
    pub etcd: PathBuf,
    /// Kubernetes' API server.
    pub kube_apiserver: PathBuf,
    /// Kubernetes' controllers.
    pub kube_controller_manager: PathBuf,
    /// Cluster API's core manager.
    pub capi_core: PathBuf,
    /// Cluster API's kubeadm bootstrap provider.
    pub capi_kubeadm_bootstrap: PathBuf,
    /// Cluster API's kubeadm control plane provider.
    pub capi_kubeadm_control_plane: PathBuf,
    /// Cluster API's in-cluster IPAM provider.
    pub capi_ipam_in_cluster: PathBuf,
    /// The folder of the Cluster API managers' rendered manifests, one JSON file per manager.
    pub manifests: PathBuf,
    /// Those of [`Options::further`], by name.
    further: BTreeMap<&'static str, PathBuf>,
}

impl Tools {
    /// Where a program of [`Options::further`] lies; an empty path if it was not asked for.
    pub fn further(&self, name: &str) -> &Path {
        self.further.get(name).map_or(Path::new(""), PathBuf::as_path)
    }
}

/// What to look for, and where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Programs that the user named, by their [names] or those of `further`.
    pub given: BTreeMap<String, PathBuf>,
    /// The cache folder; by default `$LAYERCAKE_CACHE`, else `layercake` in the user's cache folder.
    pub cache: Option<PathBuf>,
    /// Programs that are wanted beside the control plane's own.
    pub further: Vec<&'static Tool>,
}

/// Finds every program of the control plane and those wanted beside, and builds those that are nowhere. Blocks, for
/// minutes if it has to build.
pub fn ensure(options: &Options, progress: &dyn Progress) -> Result<Tools> {
    let cache = Cache::open(options.cache.clone())?;
    let wanted: Vec<_> = CONTROL_PLANE.iter().chain(options.further.iter().copied()).collect();
    let mut paths = found_or_built(options, &wanted, &cache, progress)?;
    render_manifests(&cache, progress)?;
    let mut path = |name: &str| paths.remove(name).unwrap_or_default();
    Ok(Tools {
        etcd: path("etcd"),
        kube_apiserver: path("kube-apiserver"),
        kube_controller_manager: path("kube-controller-manager"),
        capi_core: path("capi-core"),
        capi_kubeadm_bootstrap: path("capi-kubeadm-bootstrap"),
        capi_kubeadm_control_plane: path("capi-kubeadm-control-plane"),
        capi_ipam_in_cluster: path("capi-ipam-in-cluster"),
        manifests: manifests::folder(&cache),
        further: paths,
    })
}

/// The manifests of Cluster API and the other upstream components. Blocks, for a minute if it has to render them.
pub fn ensure_manifests(progress: &dyn Progress) -> Result<Upstream> {
    let cache = Cache::open(None)?;
    render_manifests(&cache, progress)?;
    manifests::read(&cache)
}

fn render_manifests(cache: &Cache, progress: &dyn Progress) -> Result<()> {
    if manifests::exist(cache) {
        return Ok(());
    }
    let kustomize =
        found_or_built(&Options::default(), &[&KUSTOMIZE], cache, progress)?.remove(KUSTOMIZE.name);
    manifests::render(cache, &kustomize.unwrap_or_default(), progress)
}

/// Finds one program, and builds it if it is nowhere. Blocks, for a minute if it has to build.
pub fn ensure_one(tool: &'static Tool, options: &Options, progress: &dyn Progress) -> Result<PathBuf> {
    let cache = Cache::open(options.cache.clone())?;
    let found = found_or_built(options, &[tool], &cache, progress)?.remove(tool.name);
    Ok(found.unwrap_or_default())
}

/// Finds programs, and builds those that are nowhere. Blocks, for many minutes if it has to build.
pub fn ensure_all(
    tools: &[&'static Tool],
    progress: &dyn Progress,
) -> Result<BTreeMap<&'static str, PathBuf>> {
    let cache = Cache::open(None)?;
    found_or_built(&Options::default(), tools, &cache, progress)
}

fn found_or_built(
    options: &Options,
    wanted: &[&'static Tool],
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<BTreeMap<&'static str, PathBuf>> {
    check_given(options)?;
    let mut paths = BTreeMap::new();
    let mut missing = Vec::new();
    let mut finder = find::Finder::new(&options.given, cache, progress);
    for tool in wanted {
        match finder.find(tool)? {
            Some(path) => drop(paths.insert(tool.name, path)),
            None => missing.push(*tool),
        }
    }
    finder.remember();
    if !missing.is_empty() {
        build::build(cache, &missing, progress)?;
        paths.extend(missing.iter().map(|tool| (tool.name, cache.program(tool))));
    }
    Ok(paths)
}

fn check_given(options: &Options) -> Result<()> {
    let known: Vec<_> = names().chain(options.further.iter().map(|tool| tool.name)).collect();
    match options.given.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(Error::Tool {
            tool: unknown.clone(),
            reason: format!("the program does not exist; the programs are {}", known.join(", ")),
        }),
    }
}
