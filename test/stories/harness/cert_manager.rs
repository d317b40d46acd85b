//! Runs cert-manager in a cluster without nodes.

use std::path::Path;
use std::process::{Command, Stdio};

use layercake::kube::manifest;
use plane::tools::{Module, Tool};
use serde_json::Value;
use support::process::KilledChild;

use crate::harness::own_server::{apply, wait_until_served};
use crate::harness::shared_stack::build_tool;

static MODULE: Module = Module::new("certmanager", &support::cert_manager::SOURCES);
static TOOL: Tool = Tool::new("certmanager", &MODULE, ".").taking(200);

/// The running controllers. They stop on drop.
pub struct CertManager {
    _process: KilledChild,
}

impl CertManager {
    /// Creates the CRDs and starts the controllers, with the kubeconfig's permissions.
    pub fn start(kubeconfig: &Path) -> Self {
        let program = build_tool(&TOOL);
        apply(kubeconfig, "the definitions of cert-manager", &definitions());
        wait_until_served(kubeconfig);
        let mut command = Command::new(program);
        command.arg(kubeconfig).stdout(Stdio::null()).stderr(Stdio::null());
        Self { _process: KilledChild(command.spawn().expect("cert-manager starts")) }
    }
}

fn definitions() -> Vec<Value> {
    let modules = tokio::task::block_in_place(|| plane::tools::dependencies(&[&TOOL])).expect("its modules");
    let module =
        modules.iter().find(|module| module.path == support::cert_manager::MODULE).expect("the module");
    let folder = module.folder.join("deploy/crds");
    let files = std::fs::read_dir(folder).expect("its definitions").map(|file| file.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    yaml.flat_map(|path| manifest::documents(&std::fs::read_to_string(path).unwrap()).unwrap()).collect()
}
