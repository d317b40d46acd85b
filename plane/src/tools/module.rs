//! The Go modules under hack/tools, and what is built from each.
//!
//! Their sources are part of this program, so that an installed binary can build them on any machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::error::{Doing, Result};

static SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../hack/tools");
static VCSIM_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../sim/vcsim");
static KUBELET_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../sim/kubelet");

/// The Kubernetes release of the control plane.
pub const KUBERNETES: &str = "1.36.3";
/// The etcd release under it.
pub const ETCD: &str = "3.6.14";
/// The Cluster API release on top of it.
pub const CLUSTER_API: &str = "1.14.2";
/// The oldest Go that builds all of them.
pub const GO: &str = "1.26";

/// A Go module of hack/tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// Its folder in hack/tools.
    pub name: &'static str,
    /// Variables set by the linker; a server built without says that it is v0.0.0.
    stamps: &'static [(&'static str, &'static str)],
}

/// Kubernetes' own programs.
pub const K8S: Module = Module {
    name: "k8s",
    stamps: &[
        ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "36"),
        ("k8s.io/component-base/version.gitTreeState", "clean"),
    ],
};
/// etcd, apart from Kubernetes so that neither drags the other's dependencies up.
pub const ETCD_MODULE: Module = Module { name: "etcd", stamps: &[] };
/// Cluster API's managers and clusterctl.
pub const CAPI: Module = Module {
    name: "capi",
    stamps: &[
        ("sigs.k8s.io/cluster-api/version.gitVersion", "v1.14.2"),
        ("sigs.k8s.io/cluster-api/version.gitMajor", "1"),
        ("sigs.k8s.io/cluster-api/version.gitMinor", "14"),
        ("sigs.k8s.io/cluster-api/version.gitTreeState", "clean"),
    ],
};
/// The simulated vCenter.
pub const VCSIM: Module = Module { name: "vcsim", stamps: &[] };
/// The port-forward server that stands for a guest's kubelet.
pub const KUBELET: Module = Module { name: "kubelet", stamps: &[] };

impl Module {
    /// The files that a build depends on, as (path in the module, content), in a fixed order.
    pub(super) fn files(&self) -> Vec<(&'static Path, &'static [u8])> {
        let mut files = Vec::new();
        match self.name {
            "vcsim" => collect(&VCSIM_SOURCES, "", &mut files),
            "kubelet" => collect(&KUBELET_SOURCES, "", &mut files),
            name => {
                if let Some(folder) = SOURCES.get_dir(name) {
                    collect(folder, name, &mut files);
                }
            }
        }
        files.sort();
        files
    }

    /// The name of the module's folder in the cache: it changes when anything that a build depends on does.
    pub(super) fn folder(&self) -> String {
        let mut hash = Sha256::new();
        for (path, content) in self.files() {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update([0]);
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        hash.update(self.ldflags());
        hash.update(std::env::consts::ARCH);
        let digest = hash.finalize();
        let mut name = format!("{}-", self.name);
        for byte in &digest[..8] {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Puts the module's files into `folder`.
    pub(super) fn write_to(&self, folder: &Path) -> Result<()> {
        for (path, content) in self.files() {
            let target = folder.join(path);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).doing(|| format!("make {}", parent.display()))?;
            }
            fs::write(&target, content).doing(|| format!("write {}", target.display()))?;
        }
        Ok(())
    }

    /// Whether hack/tools holds the module with its checksums, without which nothing is built.
    pub(super) fn is_complete(&self) -> bool {
        self.files().iter().any(|(path, _)| *path == Path::new("go.mod"))
    }

    /// The linker's flags: no symbol tables, and the versions.
    pub(super) fn ldflags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        for (variable, value) in self.stamps {
            let _ = write!(flags, " -X {variable}={value}");
        }
        flags
    }
}

/// Tests and prose are left out, so that changing them costs nobody a build.
fn collect(folder: &Dir<'static>, module: &str, files: &mut Vec<(&'static Path, &'static [u8])>) {
    for file in folder.files() {
        let path = file.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_source = !name.ends_with("_test.go") && !name.ends_with(".md") && !name.starts_with('.');
        if let (true, Ok(inside)) = (is_source, path.strip_prefix(module)) {
            files.push((inside, file.contents()));
        }
    }
    for inner in folder.dirs() {
        if inner.path().file_name().is_none_or(|name| name != "testdata") {
            collect(inner, module, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_all_that_a_build_depends_on() {
        assert!(K8S.is_complete() && ETCD_MODULE.is_complete() && CAPI.is_complete());
        let names = [K8S, ETCD_MODULE, CAPI].map(|module| module.folder());
        assert!(names.iter().all(|name| name.rsplit('-').next().is_some_and(|hash| hash.len() == 16)));
        let stamped_otherwise = Module { stamps: &[("a.b", "c")], ..K8S };
        assert_ne!(stamped_otherwise.folder(), K8S.folder());
    }

    #[test]
    fn versions_are_stamped() {
        assert!(K8S.ldflags().contains(&format!("gitVersion=v{KUBERNETES} ")));
        assert!(CAPI.ldflags().contains(&format!("gitVersion=v{CLUSTER_API} ")));
    }
}
