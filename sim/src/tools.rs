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
    Ok(components::config::external_definitions()?)
}
