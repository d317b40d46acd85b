//! The site's programs, and the CRDs for the kinds that its providers serve.

use include_dir::{Dir, include_dir};
use plane::tools::{KUBEADM, Module, Tool};
use serde_json::Value;

static VCSIM_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/vcsim");
static KUBELET_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/kubelet");
static VCSIM_MODULE: Module = Module::new("vcsim", &VCSIM_SOURCES);
static KUBELET_MODULE: Module = Module::new("kubelet", &KUBELET_SOURCES);

/// The simulated vCenter (`sim/vcsim`).
pub static VCSIM: Tool = Tool::new("vcsim", &VCSIM_MODULE, ".").taking(25);
/// The port-forward server that replaces a guest's kubelet (`sim/kubelet`).
pub static KUBELET: Tool = Tool::new("kubelet", &KUBELET_MODULE, ".").taking(5);

/// Returns the site's programs, to be passed to [`plane::tools::ensure`]: the simulated vCenter, the port-forward
/// server, and kubeadm, which validates the guests' configurations.
pub fn programs() -> Vec<&'static Tool> {
    vec![&KUBEADM, &VCSIM, &KUBELET]
}

/// Returns the CRDs for the network and storage kinds.
pub fn definitions() -> Result<Vec<Value>, plane::Error> {
    Ok(components::config::external_definitions()?)
}
