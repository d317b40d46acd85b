//! The supported Kubernetes releases, and the programs that their images contain.

use include_dir::{Dir, include_dir};
use plane::tools::{ETCD_SERVER, Module, Tool};

use crate::error::{Error, Result};

static KUBERNETES_1_35: Dir = include_dir!("$CARGO_MANIFEST_DIR/kubernetes-1.35");
static KUBERNETES_1_36: Dir = include_dir!("$CARGO_MANIFEST_DIR/kubernetes-1.36");
static CONTAINERD_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/containerd");
static CNI_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/cni");
static COREDNS_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/coredns");
static FLANNEL_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/flannel");
static METRICS_SERVER_SOURCES: Dir = include_dir!("$CARGO_MANIFEST_DIR/metrics-server");

/// The containerd version.
pub const CONTAINERD: &str = "2.2.9";
/// The version of the CNI plugins.
pub const CNI: &str = "1.9.1";
/// The CoreDNS version.
pub const COREDNS: &str = "1.14.2";
/// The flannel version.
pub const FLANNEL: &str = "0.28.10";
/// The metrics-server version.
pub const METRICS_SERVER: &str = "0.9.0";

static MODULE_1_35: Module = Module::new("node-kubernetes-1.35", &KUBERNETES_1_35).with_stamps(&[
    ("k8s.io/component-base/version.gitVersion", "v1.35.4"),
    ("k8s.io/component-base/version.gitMajor", "1"),
    ("k8s.io/component-base/version.gitMinor", "35"),
    ("k8s.io/component-base/version.gitTreeState", "clean"),
]);
static MODULE_1_36: Module = Module::new("node-kubernetes-1.36", &KUBERNETES_1_36).with_stamps(&[
    ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
    ("k8s.io/component-base/version.gitMajor", "1"),
    ("k8s.io/component-base/version.gitMinor", "36"),
    ("k8s.io/component-base/version.gitTreeState", "clean"),
]);
static CONTAINERD_MODULE: Module = Module::new("node-containerd", &CONTAINERD_SOURCES)
    .with_stamps(&[("github.com/containerd/containerd/v2/version.Version", "v2.2.9")])
    .with_tags(&["no_btrfs", "no_devmapper", "no_zfs", "no_nri"]);
static CNI_MODULE: Module = Module::new("node-cni", &CNI_SOURCES);
static COREDNS_MODULE: Module = Module::new("node-coredns", &COREDNS_SOURCES);
static FLANNEL_MODULE: Module = Module::new("node-flannel", &FLANNEL_SOURCES)
    .with_stamps(&[("github.com/flannel-io/flannel/pkg/version.Version", "v0.28.10")]);
static METRICS_SERVER_MODULE: Module = Module::new("node-metrics-server", &METRICS_SERVER_SOURCES);

const fn kubernetes(module: &'static Module) -> [Tool; 7] {
    [
        Tool::new("kube-apiserver", module, "k8s.io/kubernetes/cmd/kube-apiserver").taking(200),
        Tool::new("kube-controller-manager", module, "k8s.io/kubernetes/cmd/kube-controller-manager")
            .taking(90),
        Tool::new("kube-scheduler", module, "k8s.io/kubernetes/cmd/kube-scheduler").taking(20),
        Tool::new("kube-proxy", module, "k8s.io/kubernetes/cmd/kube-proxy").taking(20),
        Tool::new("kubelet", module, "k8s.io/kubernetes/cmd/kubelet").taking(80),
        Tool::new("kubeadm", module, "k8s.io/kubernetes/cmd/kubeadm").taking(30),
        Tool::new("kubectl", module, "k8s.io/kubernetes/cmd/kubectl").taking(40),
    ]
}
static TOOLS_1_35: [Tool; 7] = kubernetes(&MODULE_1_35);
static TOOLS_1_36: [Tool; 7] = kubernetes(&MODULE_1_36);

const SHIM: &str = "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2";
static CONTAINERD_TOOLS: [Tool; 4] = [
    Tool::new("containerd", &CONTAINERD_MODULE, "github.com/containerd/containerd/v2/cmd/containerd")
        .taking(90),
    Tool::new("containerd-shim-runc-v2", &CONTAINERD_MODULE, SHIM).taking(5),
    Tool::new("ctr", &CONTAINERD_MODULE, "github.com/containerd/containerd/v2/cmd/ctr").taking(10),
    Tool::new("preload", &CONTAINERD_MODULE, "./preload").taking(5),
];
/// The CNI plugins, which are installed in /opt/cni/bin.
pub(crate) static CNI_TOOLS: [Tool; 8] = [
    Tool::new("bandwidth", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/meta/bandwidth"),
    Tool::new("bridge", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/main/bridge"),
    Tool::new("flannel", &CNI_MODULE, "./flannel"),
    Tool::new("host-local", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/ipam/host-local"),
    Tool::new("loopback", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/main/loopback"),
    Tool::new("portmap", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/meta/portmap"),
    Tool::new("ptp", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/main/ptp"),
    Tool::new("tuning", &CNI_MODULE, "github.com/containernetworking/plugins/plugins/meta/tuning"),
];
static OTHER_TOOLS: [Tool; 3] = [
    Tool::new("coredns", &COREDNS_MODULE, "github.com/coredns/coredns").taking(400),
    Tool::new("flanneld", &FLANNEL_MODULE, ".").taking(60),
    Tool::new("metrics-server", &METRICS_SERVER_MODULE, "sigs.k8s.io/metrics-server/cmd/metrics-server")
        .taking(60),
];

/// A Kubernetes release for which images can be built.
#[derive(Debug)]
pub struct SupportedRelease {
    /// The minor version, such as `v1.36`.
    pub minor: &'static str,
    /// The full version, such as `v1.36.3`.
    pub version: &'static str,
    /// The etcd, CoreDNS and pause image tags that this release's kubeadm uses by default.
    pub(crate) defaults: Defaults,
    tools: &'static [Tool; 7],
}

/// kubeadm's default image tags.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) etcd: &'static str,
    pub(crate) coredns: &'static str,
    pub(crate) pause: &'static str,
}

/// The supported releases, oldest first.
pub static RELEASES: [SupportedRelease; 2] = [
    SupportedRelease {
        minor: "v1.35",
        version: "v1.35.4",
        defaults: Defaults { etcd: "3.6.6-0", coredns: "v1.13.1", pause: "3.10.1" },
        tools: &TOOLS_1_35,
    },
    SupportedRelease {
        minor: "v1.36",
        version: "v1.36.3",
        defaults: Defaults { etcd: "3.6.8-0", coredns: "v1.14.2", pause: "3.10.2" },
        tools: &TOOLS_1_36,
    },
];

impl SupportedRelease {
    /// Returns the release for a minor or full version, with or without `v`. The error lists the supported releases.
    pub fn find(named: &str) -> Result<&'static Self> {
        let with_v = format!("v{}", named.trim().trim_start_matches('v'));
        RELEASES
            .iter()
            .find(|release| [release.minor, release.version].contains(&with_v.as_str()))
            .ok_or_else(|| {
                let known: Vec<_> = RELEASES.iter().map(|r| format!("{} ({})", r.minor, r.version)).collect();
                Error::Request(format!(
                    "images of Kubernetes {named} are not supported; supported are {}",
                    known.join(", ")
                ))
            })
    }

    /// Returns the programs for the node and its container images, grouped by Go module.
    pub fn tools(&self) -> Vec<Vec<&'static Tool>> {
        let mut modules =
            vec![self.tools.iter().collect(), CONTAINERD_TOOLS.iter().collect(), CNI_TOOLS.iter().collect()];
        modules.extend(OTHER_TOOLS.iter().map(|tool| vec![tool]));
        modules.push(vec![&ETCD_SERVER]);
        modules
    }

    /// Returns the etcd image tag. The etcd version that is built can be newer than kubeadm's default.
    pub(crate) fn etcd_tag() -> String {
        format!("{}-0", plane::tools::ETCD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_found_by_minor_and_version() {
        for name in ["v1.36", "1.36", "v1.36.3", " 1.36.3 "] {
            assert_eq!(SupportedRelease::find(name).unwrap().version, "v1.36.3");
        }
        let refusal = SupportedRelease::find("v1.30").unwrap_err().to_string();
        assert_eq!(
            refusal,
            "images of Kubernetes v1.30 are not supported; supported are v1.35 (v1.35.4), v1.36 (v1.36.3)"
        );
    }

    #[test]
    fn modules_name_the_releases() {
        let named = |sources: &Dir, what: &str| {
            let text = sources.get_file("go.mod").and_then(|file| file.contents_utf8()).unwrap();
            assert!(text.lines().any(|line| line.trim().starts_with(what)), "go.mod has no {what}");
        };
        named(&KUBERNETES_1_35, "require k8s.io/kubernetes v1.35.4");
        named(&KUBERNETES_1_36, "k8s.io/kubernetes v1.36.3");
        named(&CONTAINERD_SOURCES, &format!("github.com/containerd/containerd/v2 v{CONTAINERD}"));
        named(&CNI_SOURCES, &format!("github.com/containernetworking/plugins v{CNI}"));
        named(&COREDNS_SOURCES, &format!("github.com/coredns/coredns v{COREDNS}"));
        named(&FLANNEL_SOURCES, &format!("github.com/flannel-io/flannel v{FLANNEL}"));
        named(&METRICS_SERVER_SOURCES, &format!("sigs.k8s.io/metrics-server v{METRICS_SERVER}"));
    }

    #[test]
    fn programs_are_stamped_with_their_release() {
        for release in &RELEASES {
            let stamps = release.tools[0].module.stamps;
            assert!(stamps.contains(&("k8s.io/component-base/version.gitVersion", release.version)));
            assert!(release.version.starts_with(release.minor));
        }
    }
}
