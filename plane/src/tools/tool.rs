//! The programs that the stack can run: how each is built, and by what a found one is known.

use super::module::{self, Module};

/// A program and how it is had.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Its name, as [`super::Options::given`] takes it.
    pub name: &'static str,
    /// The Go module that it is built from.
    pub module: &'static Module,
    /// Its package, as the module names it.
    pub package: &'static str,
    /// How it is asked for its version, and what the answer must begin with; None if only ours will do.
    pub version: Option<(&'static [&'static str], &'static str)>,
    /// How long its build takes from nothing, in seconds on two cores: what estimates are made of.
    pub seconds: u32,
}

impl Tool {
    /// A program that is always built from its module.
    pub const fn new(name: &'static str, module: &'static Module, package: &'static str) -> Self {
        Self { name, module, package, version: None, seconds: 10 }
    }

    /// One that may come from elsewhere: asked with `args`, it must answer with a line that begins with `answer`.
    #[must_use]
    pub const fn with_version(self, args: &'static [&'static str], answer: &'static str) -> Self {
        Self { version: Some((args, answer)), ..self }
    }

    /// Takes so many seconds to build from nothing on two cores.
    #[must_use]
    pub const fn taking(self, seconds: u32) -> Self {
        Self { seconds, ..self }
    }

    /// Whether `go build` gives it its name by itself, so that it can be built together with others.
    pub(super) fn is_named_by_go(&self) -> bool {
        self.package.rsplit('/').next() == Some(self.name)
    }
}

/// The control plane: what every stack runs. Any patch release will do: configuration and behaviour change with minor
/// ones.
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

/// The managers of upstream projects in a management cluster: the program of each component, by the name of its manifests.
pub fn managers() -> impl Iterator<Item = &'static Tool> {
    CONTROL_PLANE.iter().filter(|tool| tool.name.starts_with("capi-"))
}

/// etcd as it is built here, never one from elsewhere: for what has to be the same on every machine.
pub static ETCD_SERVER: Tool =
    Tool::new("etcd", &module::ETCD_MODULE, "go.etcd.io/etcd/server/v3").taking(60);
/// Kubernetes' command line.
pub static KUBECTL: Tool = Tool::new("kubectl", &module::K8S, "k8s.io/kubernetes/cmd/kubectl")
    .with_version(&["version", "--client"], "Client Version: v1.36.")
    .taking(40);
/// What sets nodes up; it also checks their configurations.
pub static KUBEADM: Tool = Tool::new("kubeadm", &module::K8S, "k8s.io/kubernetes/cmd/kubeadm")
    .with_version(&["version", "-o", "short"], "v1.36.")
    .taking(30);
/// Cluster API's command line.
pub static CLUSTERCTL: Tool =
    Tool::new("clusterctl", &module::CAPI, "sigs.k8s.io/cluster-api/cmd/clusterctl")
        .with_version(&["version", "-o", "short"], "v1.14.")
        .taking(30);
/// What renders Cluster API's manifests, once.
pub(super) static KUSTOMIZE: Tool = Tool::new("kustomize", &module::KUSTOMIZE, ".");

/// Programs that are built when they are first asked for.
pub(super) static ON_DEMAND: [&Tool; 3] = [&KUBECTL, &KUBEADM, &CLUSTERCTL];

/// The names of all programs that plane knows, as [`super::Options::given`] takes them.
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
