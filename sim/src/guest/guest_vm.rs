//! A guest's environment apart from its cloud-init data: hardware, disk, and the programs in its node image.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plane::StackIdentity;
use plane::process::Command;
use plane::tools::{KUBEADM, Tools};

use super::container_images::ContainerImages;
use super::deadline::Deadline;
use super::disk::Disk;
use super::failure::Failure;
use super::provoked::Provoked;
use crate::addresses::GuestAddress;
use crate::network::held_address::HeldAddresses;
use crate::pattern::Patterns;
use crate::tools::KUBELET;

/// The default maximum time that a boot waits for other components. kubeadm has the same default.
pub const BOOT_TIMEOUT: Duration = Duration::from_mins(5);

/// The programs in a node image.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The etcd binary.
    pub etcd: PathBuf,
    /// The kube-apiserver binary.
    pub kube_apiserver: PathBuf,
    /// The kube-controller-manager binary.
    pub kube_controller_manager: PathBuf,
    /// The kubeadm binary, which only validates configurations.
    pub kubeadm: PathBuf,
    /// The server for port-forward requests, which replaces the kubelet.
    pub kubelet: PathBuf,
    /// Scripts that Pods may run with their node's shell. Pods with other programs don't get a process, because this
    /// host doesn't isolate Pods.
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

/// A VM that can boot.
#[derive(Clone, Debug)]
pub struct GuestVm {
    /// The VM name, for logs.
    pub name: String,
    /// The VM's IP address.
    pub address: GuestAddress,
    /// The VM's disk.
    pub disk: Disk,
    /// The programs in the node image.
    pub programs: Arc<Programs>,
    /// The stack that owns the VM's processes.
    pub stack: Arc<StackIdentity>,
    /// The node image's Kubernetes version, if known.
    pub kubernetes_version: Option<String>,
    /// The container images that the node image contains or that the node can pull.
    pub images: ContainerImages,
    /// The maximum time that a boot waits for other components.
    pub boot_timeout: Duration,
    /// The virtual IPs in the VM's network, with the nodes that hold them.
    pub addresses: Arc<HeldAddresses>,
    /// Name patterns for VMs whose kubelet stays silent.
    pub silent: Patterns,
    /// Failures that tests inject into kubeadm.
    pub provoked: Provoked,
}

impl GuestVm {
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after(self.boot_timeout)
    }

    /// Returns true if a test silences the VM's kubelet.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.fit(&self.name)
    }

    /// Returns a command whose process belongs to this VM.
    pub(super) fn command(&self, component: &str, program: &Path) -> Result<Command, Failure> {
        let name = format!("guest-{}-{component}", self.name);
        Command::new(&self.stack, &name, program).map_err(|error| Failure::host("prepare a program", &error))
    }

    /// Returns the command that serves the API server's port-forward requests.
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
