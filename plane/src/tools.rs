//! The programs that the stack runs, and where they come from.
//!
//! A program is taken, in this order, from an explicit path, from the folder KUBEBUILDER_ASSETS, from PATH (both
//! only if its version fits), and from a cache folder. What is still missing is built from the Go modules in
//! hack/tools, once per user and version. When nothing is missing, Go is not run.

mod build;
mod cache;
mod find;
mod module;
mod progress;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use cache::folder as cache_folder;
pub use module::{CLUSTER_API, ETCD, GO, KUBERNETES};
pub use progress::{Progress, progress};

use crate::error::{Error, Result};
use cache::Cache;
use module::Module;

/// Where every program of the stack lies.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The store.
    pub etcd: PathBuf,
    /// Kubernetes' API server.
    pub kube_apiserver: PathBuf,
    /// Kubernetes' controllers.
    pub kube_controller_manager: PathBuf,
    /// Kubernetes' command line.
    pub kubectl: PathBuf,
    /// Checks the kubeadm configurations that guests get.
    pub kubeadm: PathBuf,
    /// Cluster API's command line.
    pub clusterctl: PathBuf,
    /// Cluster API's core manager.
    pub capi_core: PathBuf,
    /// Cluster API's kubeadm bootstrap provider.
    pub capi_kubeadm_bootstrap: PathBuf,
    /// Cluster API's kubeadm control plane provider.
    pub capi_kubeadm_control_plane: PathBuf,
    /// The simulated vCenter; only there if asked for by [`Options::site`].
    pub vcsim: PathBuf,
    /// The stand-in for a guest's kubelet; only there if asked for by [`Options::site`].
    pub kubelet: PathBuf,
    /// The folder of the Cluster API managers' rendered manifests, one JSON file per manager.
    pub manifests: PathBuf,
}

/// What to look for, and where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Programs that the user named, by their [names](NAMES).
    pub given: BTreeMap<String, PathBuf>,
    /// The cache folder; by default `$LAYERCAKE_CACHE`, else `layercake` in the user's cache folder.
    pub cache: Option<PathBuf>,
    /// Whether the programs of the simulated site (vcsim and the guests' kubelet) are wanted too.
    pub site: bool,
}

/// A program and how it is had.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    module: Module,
    package: &'static str,
    /// How it is asked for its version, and what the answer must hold; None if only ours will do.
    version: Option<(&'static [&'static str], &'static str)>,
}

const fn tool(name: &'static str, module: Module, package: &'static str) -> Tool {
    Tool { name, module, package, version: None }
}

impl Tool {
    const fn told_by(self, args: &'static [&'static str], answer: &'static str) -> Self {
        Self { version: Some((args, answer)), ..self }
    }

    fn is_of_the_site(&self) -> bool {
        self.module == module::VCSIM || self.module == module::KUBELET
    }
}

/// Any patch release will do: configuration and behaviour change with minor ones.
static TOOLS: [Tool; 11] = [
    tool("etcd", module::ETCD_MODULE, "go.etcd.io/etcd/server/v3")
        .told_by(&["--version"], "etcd Version: 3.6."),
    tool("kube-apiserver", module::K8S, "k8s.io/kubernetes/cmd/kube-apiserver")
        .told_by(&["--version"], "Kubernetes v1.36."),
    tool("kube-controller-manager", module::K8S, "k8s.io/kubernetes/cmd/kube-controller-manager")
        .told_by(&["--version"], "Kubernetes v1.36."),
    tool("kubectl", module::K8S, "k8s.io/kubernetes/cmd/kubectl")
        .told_by(&["version", "--client"], "Client Version: v1.36."),
    tool("kubeadm", module::K8S, "k8s.io/kubernetes/cmd/kubeadm")
        .told_by(&["version", "-o", "short"], "v1.36."),
    tool("capi-core", module::CAPI, "sigs.k8s.io/cluster-api/core"),
    tool("capi-kubeadm-bootstrap", module::CAPI, "sigs.k8s.io/cluster-api/bootstrap/kubeadm"),
    tool("capi-kubeadm-control-plane", module::CAPI, "sigs.k8s.io/cluster-api/controlplane/kubeadm"),
    tool("clusterctl", module::CAPI, "sigs.k8s.io/cluster-api/cmd/clusterctl")
        .told_by(&["version", "-o", "short"], "v1.14."),
    tool("vcsim", module::VCSIM, "."),
    tool("kubelet", module::KUBELET, "."),
];

/// The names of all programs, as [`Options::given`] takes them.
pub const NAMES: [&str; 11] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "kubeadm",
    "capi-core",
    "capi-kubeadm-bootstrap",
    "capi-kubeadm-control-plane",
    "clusterctl",
    "vcsim",
    "kubelet",
];

/// Finds every program, and builds those that are nowhere. Blocks, for minutes if it has to build.
pub fn ensure(options: &Options, progress: &dyn Progress) -> Result<Tools> {
    if let Some(unknown) = options.given.keys().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(Error::Tool {
            tool: unknown.clone(),
            reason: format!("no such program; there are {}", NAMES.join(", ")),
        });
    }
    let cache = Cache::open(options.cache.clone())?;
    let mut paths = BTreeMap::new();
    let mut missing = Vec::new();
    let mut finder = find::Finder::new(&options.given, &cache, progress);
    for tool in TOOLS.iter().filter(|tool| options.site || !tool.is_of_the_site()) {
        match finder.find(tool)? {
            Some(path) => drop(paths.insert(tool.name, path)),
            None => missing.push(tool),
        }
    }
    finder.remember();
    if !missing.is_empty() || !build::manifests_exist(&cache) {
        build::build(&cache, &missing, &mut paths, progress)?;
    }
    Ok(gathered(paths, &cache))
}

fn gathered(mut paths: BTreeMap<&'static str, PathBuf>, cache: &Cache) -> Tools {
    let mut path = |name: &str| paths.remove(name).unwrap_or_default();
    Tools {
        etcd: path("etcd"),
        kube_apiserver: path("kube-apiserver"),
        kube_controller_manager: path("kube-controller-manager"),
        kubectl: path("kubectl"),
        kubeadm: path("kubeadm"),
        clusterctl: path("clusterctl"),
        capi_core: path("capi-core"),
        capi_kubeadm_bootstrap: path("capi-kubeadm-bootstrap"),
        capi_kubeadm_control_plane: path("capi-kubeadm-control-plane"),
        vcsim: path("vcsim"),
        kubelet: path("kubelet"),
        manifests: build::manifests(cache),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_its_name() {
        assert_eq!(TOOLS.each_ref().map(|tool| tool.name), NAMES);
    }

    #[test]
    fn only_programs_with_a_known_version_may_come_from_elsewhere() {
        let ours: Vec<_> = TOOLS.iter().filter(|tool| tool.version.is_none()).map(|tool| tool.name).collect();
        assert_eq!(
            ours,
            ["capi-core", "capi-kubeadm-bootstrap", "capi-kubeadm-control-plane", "vcsim", "kubelet"]
        );
    }
}
