//! The programs that the stack can run, with their build and version check.

use super::module::{self, Module};

/// A program, with its source and version check.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// The program name, as in [`super::Options::given`].
    pub name: &'static str,
    pub module: &'static Module,
    /// The Go package to build, as the module names it.
    pub package: &'static str,
    /// The arguments for the version check, and the beginning of the line that the program must print. `None` if only a
    /// program that was built from the module is accepted.
    pub version: Option<(&'static [&'static str], &'static str)>,
    /// The build time from scratch in seconds on two cores, for estimates.
    pub seconds: u32,
}

impl Tool {
    /// Creates a program that is always built from the Go package `package` in its module.
    pub const fn new(name: &'static str, module: &'static Module, package: &'static str) -> Self {
        Self { name, module, package, version: None, seconds: 10 }
    }

    /// Also accepts a program that wasn't built from the module. The program must print a line that begins with
    /// `answer` if it is run with the arguments `args`.
    #[must_use]
    pub const fn with_version(self, args: &'static [&'static str], answer: &'static str) -> Self {
        Self { version: Some((args, answer)), ..self }
    }

    /// Sets the build time from scratch in seconds on two cores.
    #[must_use]
    pub const fn taking(self, seconds: u32) -> Self {
        Self { seconds, ..self }
    }

    /// Returns true if `go build` names the program correctly by default. Then it can be built together with other
    /// programs.
    pub(super) fn is_named_by_go(&self) -> bool {
        self.package.rsplit('/').next() == Some(self.name)
    }
}

/// The control plane programs, which every stack runs. Any patch release is accepted, because configuration and
/// behavior only change with minor releases.
pub(super) static CONTROL_PLANE: [Tool; 7] = [
    Tool::new("etcd", &module::ETCD_MODULE, "go.etcd.io/etcd/server/v3")
        .with_version(&["--version"], "etcd Version: 3.6.")
        .taking(60),
    Tool::new("kube-apiserver", &module::K8S, "k8s.io/kubernetes/cmd/kube-apiserver")
        .with_version(&["--version"], "Kubernetes v1.36.")
        .taking(200),
    Tool::new("kube-controller-manager", &module::K8S, "k8s.io/kubernetes/cmd/kube-controller-manager")
        .with_version(&["--version"], "Kubernetes v1.36.")
        .taking(90),
    Tool::new("capi-core", &module::CAPI, "sigs.k8s.io/cluster-api/core").taking(60),
    Tool::new("capi-kubeadm-bootstrap", &module::CAPI, "sigs.k8s.io/cluster-api/bootstrap/kubeadm")
        .taking(15),
    Tool::new("capi-kubeadm-control-plane", &module::CAPI, "sigs.k8s.io/cluster-api/controlplane/kubeadm")
        .taking(15),
    Tool::new(
        "capi-ipam-in-cluster",
        &module::IPAM_MODULE,
        "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
    )
    .taking(60),
];

/// Returns the upstream managers in a management cluster. A manager's manifests have the same name.
pub fn managers() -> impl Iterator<Item = &'static Tool> {
    CONTROL_PLANE.iter().filter(|tool| tool.name.starts_with("capi-"))
}

/// etcd, always built from its module, for uses that must be the same on every machine.
pub static ETCD_SERVER: Tool =
    Tool::new("etcd", &module::ETCD_MODULE, "go.etcd.io/etcd/server/v3").taking(60);
/// The Kubernetes command-line client.
pub static KUBECTL: Tool = Tool::new("kubectl", &module::K8S, "k8s.io/kubernetes/cmd/kubectl")
    .with_version(&["version", "--client"], "Client Version: v1.36.")
    .taking(40);
/// The program that sets up nodes. It also checks their configurations.
pub static KUBEADM: Tool = Tool::new("kubeadm", &module::K8S, "k8s.io/kubernetes/cmd/kubeadm")
    .with_version(&["version", "-o", "short"], "v1.36.")
    .taking(30);
/// The Cluster API command-line client.
pub static CLUSTERCTL: Tool =
    Tool::new("clusterctl", &module::CAPI, "sigs.k8s.io/cluster-api/cmd/clusterctl")
        .with_version(&["version", "-o", "short"], "v1.14.")
        .taking(30);

/// Programs that are built on first use.
pub(super) static ON_DEMAND: [&Tool; 3] = [&KUBECTL, &KUBEADM, &CLUSTERCTL];

/// Returns the names of all programs that the plane knows, as in [`super::Options::given`].
pub fn names() -> impl Iterator<Item = &'static str> {
    CONTROL_PLANE.iter().chain(ON_DEMAND).map(|tool| tool.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_with_a_known_version_may_come_from_elsewhere() {
        let ours = CONTROL_PLANE.iter().chain(ON_DEMAND).filter(|tool| tool.version.is_none());
        let ours: Vec<_> = ours.map(|tool| tool.name).collect();
        let expected =
            ["capi-core", "capi-kubeadm-bootstrap", "capi-kubeadm-control-plane", "capi-ipam-in-cluster"];
        assert_eq!(ours, expected);
    }

    #[test]
    fn names_are_those_of_programs() {
        let names: Vec<_> = names().collect();
        assert_eq!(names.len(), CONTROL_PLANE.len() + ON_DEMAND.len());
        assert!(names.contains(&"etcd") && names.contains(&"kubectl"));
    }
}
