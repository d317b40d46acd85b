//! Finds or builds the programs that the stack runs.
//!
//! A program is taken, in this order, from an explicit path, from the release that the executable belongs to, from the folder
//! LAYERCAKE_TOOLS, from the folder KUBEBUILDER_ASSETS, from PATH (both only if its version fits), and from a cache folder.
//! Missing programs are built from embedded Go modules, once per user and version. Go is only run if a program is missing.

mod build;
mod cache;
mod dependencies;
mod estimate;
mod find;
mod go;
mod module;
mod progress;
mod shipped;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use cache::folder as cache_folder;
pub use dependencies::{Dependency, dependencies, go_version};
pub use module::{CLUSTER_API, ETCD, GO, IPAM, KUBERNETES, Module};
pub use progress::{BuildProgress, progress};
pub use shipped::pack;
pub use tool::{CLUSTERCTL, ETCD_SERVER, KUBEADM, KUBECTL, Tool, managers, names};

use crate::error::{Error, Result};
use cache::BuildCache;
use tool::CONTROL_PLANE;

/// The paths to the stack's programs.
#[derive(Debug, Clone)]
pub struct Tools {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    pub kube_controller_manager: PathBuf,
    pub capi_core: PathBuf,
    pub capi_kubeadm_bootstrap: PathBuf,
    pub capi_kubeadm_control_plane: PathBuf,
    pub capi_ipam_in_cluster: PathBuf,
    /// The programs in [`Options::further`], by name.
    further: BTreeMap<&'static str, PathBuf>,
}

impl Tools {
    /// Returns the path to a program in [`Options::further`], or an empty path if it wasn't requested.
    pub fn further(&self, name: &str) -> &Path {
        self.further.get(name).map_or(Path::new(""), PathBuf::as_path)
    }
}

/// Options for finding and building programs.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The paths that the user gave, by program name. The program must be one of [names] or in `further`.
    pub given: BTreeMap<String, PathBuf>,
    /// The cache folder. Default: `$LAYERCAKE_CACHE`, or `layercake` in the user's cache folder.
    pub cache: Option<PathBuf>,
    /// Programs that are needed in addition to the control plane's own.
    pub further: Vec<&'static Tool>,
}

/// Returns the programs that every stack runs.
pub fn control_plane() -> impl Iterator<Item = &'static Tool> {
    CONTROL_PLANE.iter()
}

/// Finds the control plane programs and `options.further`, and builds the missing ones. Blocks for minutes if it has to
/// build.
pub fn ensure(options: &Options, progress: &dyn BuildProgress) -> Result<Tools> {
    let cache = BuildCache::open(options.cache.clone())?;
    let wanted: Vec<_> = CONTROL_PLANE.iter().chain(options.further.iter().copied()).collect();
    let mut paths = found_or_built(options, &wanted, &cache, progress)?;
    let mut path = |name: &str| paths.remove(name).unwrap_or_default();
    Ok(Tools {
        etcd: path("etcd"),
        kube_apiserver: path("kube-apiserver"),
        kube_controller_manager: path("kube-controller-manager"),
        capi_core: path("capi-core"),
        capi_kubeadm_bootstrap: path("capi-kubeadm-bootstrap"),
        capi_kubeadm_control_plane: path("capi-kubeadm-control-plane"),
        capi_ipam_in_cluster: path("capi-ipam-in-cluster"),
        further: paths,
    })
}

/// Finds a program, or builds it if it is missing. Blocks for a minute if it has to build.
pub fn ensure_one(tool: &'static Tool, options: &Options, progress: &dyn BuildProgress) -> Result<PathBuf> {
    let cache = BuildCache::open(options.cache.clone())?;
    let found = found_or_built(options, &[tool], &cache, progress)?.remove(tool.name);
    Ok(found.unwrap_or_default())
}

/// Finds programs, and builds the missing ones. Blocks for many minutes if it has to build.
pub fn ensure_all(
    tools: &[&'static Tool],
    progress: &dyn BuildProgress,
) -> Result<BTreeMap<&'static str, PathBuf>> {
    let cache = BuildCache::open(None)?;
    found_or_built(&Options::default(), tools, &cache, progress)
}

fn found_or_built(
    options: &Options,
    wanted: &[&'static Tool],
    cache: &BuildCache,
    progress: &dyn BuildProgress,
) -> Result<BTreeMap<&'static str, PathBuf>> {
    check_given(options)?;
    let mut paths = BTreeMap::new();
    let mut missing = Vec::new();
    let mut finder = find::Finder::new(&options.given, cache, progress).with_shipped(shipped::folders()?);
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
