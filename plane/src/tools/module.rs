//! The Go modules that programs are built from.
//!
//! The modules' sources are embedded, so that an installed binary can build the programs on any machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::error::{OperationContext, Result};

static K8S_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/modules/k8s");
static ETCD_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/modules/etcd");
static CAPI_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/modules/capi");
static IPAM_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/modules/ipam");

/// The Kubernetes release of the control plane.
pub const KUBERNETES: &str = "1.36.3";
/// The etcd release for this Kubernetes release.
pub const ETCD: &str = "3.6.14";
/// The Cluster API release.
pub const CLUSTER_API: &str = "1.14.2";
/// The release of Cluster API's in-cluster IPAM provider.
pub const IPAM: &str = "1.0.3";
/// The minimum Go version for all modules.
pub const GO: &str = "1.26";

/// The compiler flags, without debug information. The linker would drop the debug information, and writing it takes a
/// seventh of the compile time.
pub(super) const GCFLAGS: &str = "-gcflags=all=-dwarf=false";

/// A Go module with embedded sources.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    /// The prefix for the module's cache folder name.
    pub name: &'static str,
    pub sources: &'static Dir<'static>,
    /// Variables that the linker sets, as (variable, value). A server that is built without them reports version v0.0.0.
    pub stamps: &'static [(&'static str, &'static str)],
    /// The Go build tags.
    pub tags: &'static [&'static str],
}

/// Kubernetes' own programs.
pub(super) static K8S: Module = Module {
    name: "k8s",
    sources: &K8S_SOURCES,
    stamps: &[
        ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "36"),
        ("k8s.io/component-base/version.gitTreeState", "clean"),
    ],
    tags: &[],
};
/// etcd, in a separate module from Kubernetes, so that neither raises the other's dependency versions.
pub(super) static ETCD_MODULE: Module = Module::new("etcd", &ETCD_SOURCES);
/// Cluster API's managers and clusterctl.
pub(super) static CAPI: Module = Module {
    name: "capi",
    sources: &CAPI_SOURCES,
    stamps: &[
        ("sigs.k8s.io/cluster-api/version.gitVersion", "v1.14.2"),
        ("sigs.k8s.io/cluster-api/version.gitMajor", "1"),
        ("sigs.k8s.io/cluster-api/version.gitMinor", "14"),
        ("sigs.k8s.io/cluster-api/version.gitTreeState", "clean"),
    ],
    tags: &[],
};
/// The in-cluster IPAM provider, which depends on an older Cluster API than [`CAPI`].
pub(super) static IPAM_MODULE: Module = Module::new("ipam", &IPAM_SOURCES);

impl Module {
    /// Creates a module without stamps or tags.
    pub const fn new(name: &'static str, sources: &'static Dir<'static>) -> Self {
        Self { name, sources, stamps: &[], tags: &[] }
    }

    /// Sets variables through the linker.
    #[must_use]
    pub const fn with_stamps(self, stamps: &'static [(&'static str, &'static str)]) -> Self {
        Self { stamps, ..self }
    }

    /// Sets the build tags.
    #[must_use]
    pub const fn with_tags(self, tags: &'static [&'static str]) -> Self {
        Self { tags, ..self }
    }

    /// Returns the files that a build depends on, as (path in the module, content), in a fixed order.
    pub(super) fn files(&self) -> Vec<(&'static Path, &'static [u8])> {
        let mut files = Vec::new();
        collect(self.sources, &mut files);
        files.sort();
        files
    }

    /// Returns the module's folder name in the cache. It contains a hash of everything that a build depends on.
    pub(super) fn folder(&self) -> String {
        let mut hash = Sha256::new();
        for (path, content) in self.files() {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update([0]);
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        hash.update(GCFLAGS);
        hash.update(self.ldflags());
        for tag in self.tags {
            hash.update([0]);
            hash.update(tag);
        }
        hash.update(std::env::consts::ARCH);
        let digest = hash.finalize();
        let mut name = format!("{}-", self.name);
        for byte in &digest[..8] {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Writes the module's files to `folder`.
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

    /// Returns true if the embedded sources contain a `go.mod`.
    pub(super) fn is_complete(&self) -> bool {
        self.files().iter().any(|(path, _)| *path == Path::new("go.mod"))
    }

    /// Returns the linker flags, which omit symbol tables and set the version variables.
    pub(super) fn ldflags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        for (variable, value) in self.stamps {
            let _ = write!(flags, " -X {variable}={value}");
        }
        flags
    }
}

/// Collects a folder's files. Leaves out tests, test data, documentation and hidden files, so that changing them doesn't
/// cause a rebuild.
fn collect(folder: &'static Dir<'static>, files: &mut Vec<(&'static Path, &'static [u8])>) {
    for file in folder.files() {
        let name = file.path().file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with("_test.go") && !name.ends_with(".md") && !name.starts_with('.') {
            files.push((file.path(), file.contents()));
        }
    }
    for inner in folder.dirs() {
        if inner.path().file_name().is_none_or(|name| name != "testdata") {
            collect(inner, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use components::catalogue;

    use super::*;

    #[test]
    fn a_folder_is_named_after_all_that_a_build_depends_on() {
        let modules = [&K8S, &ETCD_MODULE, &CAPI, &IPAM_MODULE];
        assert!(modules.iter().all(|module| module.is_complete()));
        let names = modules.map(Module::folder);
        assert!(names.iter().all(|name| name.rsplit('-').next().is_some_and(|hash| hash.len() == 16)));
        let stamped_otherwise = Module { stamps: &[("a.b", "c")], ..K8S };
        assert_ne!(stamped_otherwise.folder(), K8S.folder());
        assert_ne!(K8S.with_tags(&["providerless"]).folder(), K8S.folder());
    }

    #[test]
    fn files_of_subfolders_are_part_of_a_build() {
        static OWN: Dir = include_dir!("$CARGO_MANIFEST_DIR/src");
        let files = Module::new("own", &OWN).files();
        assert!(files.iter().any(|(path, _)| *path == Path::new("tools/module.rs")));
    }

    #[test]
    fn versions_are_stamped() {
        assert!(K8S.ldflags().contains(&format!("gitVersion=v{KUBERNETES} ")));
        assert!(CAPI.ldflags().contains(&format!("gitVersion=v{CLUSTER_API} ")));
        let files = IPAM_MODULE.files();
        let text = |name: &str| {
            let (_, content) = files.iter().find(|(path, _)| *path == Path::new(name)).unwrap();
            String::from_utf8_lossy(content)
        };
        assert!(text("go.mod").contains(&format!("cluster-api-ipam-provider-in-cluster v{IPAM}")));
        // Clusters get the same versions that run here.
        assert_eq!(catalogue::CLUSTER_API, format!("v{CLUSTER_API}"));
        assert_eq!(catalogue::IPAM, format!("v{IPAM}"));
    }
}
