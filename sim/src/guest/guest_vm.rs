//! What a guest has of its own besides its cloud-init: hardware, disk, and the programs of its image.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plane::Stack;
use plane::process::Command;
use plane::tools::{KUBEADM, Tools};

use super::container_images::ContainerImages;
use super::deadline::Deadline;
use super::disk::Disk;
use super::failure::Failure;
use super::provoked::Provoked;
use crate::addresses::Address;
use crate::network::held_address::HeldAddresses;
use crate::pattern::Patterns;
use crate::tools::KUBELET;

/// How long a boot waits for others, as kubeadm does.
pub const BOOT_TIMEOUT: Duration = Duration::from_mins(5);

/// The programs of a node image.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager.
    pub kube_controller_manager: PathBuf,
    /// kubeadm, asked whether it takes a configuration.
    pub kubeadm: PathBuf,
    /// The server of port-forwards.
    pub kubelet: PathBuf,
    /// The scripts that Pods run with the shell of their node. Other Pods have no process: this host has no container for what
    /// users of a guest want to run.
    pub scripts: Vec<&'static str>,
}

impl From<&Tools> for Programs {
    fn from(tools: &Tools) -> Self {
        Self {
            etcd: tools.etcd.clone(),
            kube_apiserver: tools.kube_apiserver.clone(),
            kube_controller_manager: tools.kube_controller_manager.clone(),
            kubeadm: tools.further(KUBEADM.name).to_owned(),
            kubelet: tools.further(KUBELET.name).to_owned(),
            scripts: Vec::new(),
        }
    }
}

impl Programs {
    pub(super) fn of(&self, component: &str) -> Option<&Path> {
        match component {
            "etcd" => Some(&self.etcd),
            "kube-apiserver" => Some(&self.kube_apiserver),
            "kube-controller-manager" => Some(&self.kube_controller_manager),
            _ => None,
        }
    }
}

/// a VM that can boot.
#[derive(Clone, Debug)]
pub struct GuestVm {
    /// The VM's name, for logs.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its disk.
    pub disk: Disk,
    /// The programs of its image.
    pub programs: Arc<Programs>,
    /// The stack that its processes belong to.
    pub stack: Arc<Stack>,
    /// The Kubernetes version of its image, if that is known.
    pub kubernetes_version: Option<String>,
    /// The container images that it has or can get.
    pub images: ContainerImages,
    /// How long it waits for others.
    pub boot_timeout: Duration,
    /// The addresses of its network that machines hold in turn.
    pub addresses: Arc<HeldAddresses>,
    /// The names of VMs whose kubelets say nothing.
    pub silent: Patterns,
    /// What stories have kubeadm fail with.
    pub provoked: Provoked,
}

impl GuestVm {
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after(self.boot_timeout)
    }

    /// Returns true if a story silences the VM's kubelet.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.fit(&self.name)
    }

    /// A process of this VM.
    pub(super) fn command(&self, component: &str, program: &Path) -> Result<Command, Failure> {
        let name = format!("guest-{}-{component}", self.name);
        Command::new(&self.stack, &name, program).map_err(|error| Failure::host("prepare a program", &error))
    }

    /// The process that answers the API server's port-forwards.
    pub(super) fn port_forward(&self) -> Result<Command, Failure> {
        let address = self.address.served;
        let file = |name: &str| self.disk.path(&format!("/var/lib/kubelet/pki/kubelet.{name}"));
        Ok(self
            .command("kubelet", &self.programs.kubelet)?
            .args(["--listen", &format!("{address}:10250"), "--target-host", &address.to_string()])
            .arg("--tlscert")
            .arg(file("crt"))
            .arg("--tlskey")
            .arg(file("key")))
    }
}
