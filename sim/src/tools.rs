//! The programs that the site runs beside a control plane's, and the kinds that its providers bring.

use include_dir::{Dir, include_dir};
use plane::tools::{KUBEADM, Module, Tool};
use serde_json::Value;

static VCSIM_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/vcsim");
static KUBELET_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/kubelet");
static VCSIM_MODULE: Module = Module::new("vcsim", &VCSIM_SOURCES);
static KUBELET_MODULE: Module = Module::new("kubelet", &KUBELET_SOURCES);

/// The simulated vCenter.
pub static VCSIM: Tool = Tool::new("vcsim", &VCSIM_MODULE, ".").taking(25);
/// The port-forward server that stands for a guest's kubelet.
pub static KUBELET: Tool = Tool::new("kubelet", &KUBELET_MODULE, ".").taking(5);

/// The programs of the site, to be given to [`plane::tools::ensure`]: its own, and kubeadm, which guests ask whether a
/// configuration is valid.
pub fn programs() -> Vec<&'static Tool> {
    vec![&KUBEADM, &VCSIM, &KUBELET]
}

/// The definitions of the kinds that providers of networks and storage bring.
pub fn definitions() -> Result<Vec<Value>, plane::Error> {
    plane::config::external_definitions()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_of_vcsim_is_embedded() {
        let source =
            VCSIM_SOURCES.get_file("sim.go").and_then(include_dir::File::contents_utf8).unwrap_or_default();
        let module = "\"layercake.invalid/sim/vcsim/";
        let packages: Vec<_> = source.lines().filter_map(|line| line.trim().strip_prefix(module)).collect();
        assert!(packages.contains(&"core\""), "{packages:?}");
        for package in packages.iter().map(|name| name.trim_end_matches('"')) {
            let embedded =
                VCSIM_SOURCES.get_dir(package).is_some_and(|folder| folder.files().next().is_some());
            assert!(embedded, "{package}");
        }
    }
}
