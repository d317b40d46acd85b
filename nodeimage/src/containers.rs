//! The container images that a node contains.

use std::collections::BTreeMap;

use components::catalogue::{COMPONENTS, ManifestSource, Registries};
use serde::Serialize;

use crate::release::{CNI_TOOLS, COREDNS, FLANNEL, METRICS_SERVER, SupportedRelease};

/// Debian's library folder.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// The commands that are symbolic links to the iptables binary (`xtables-nft-multi`).
const IPTABLES: [&str; 6] =
    ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

/// A container image, in the format that `containerd/preload` reads.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PreloadedImage {
    /// The image references.
    pub(crate) names: Vec<String>,
    entrypoint: Vec<String>,
    /// Source paths, relative to the folder with the unpacked packages, by path in the image.
    files: BTreeMap<String, String>,
    /// Symbolic link targets, by path in the image.
    links: BTreeMap<String, String>,
}

/// The folder with the programs that are built from Go modules, relative to the folder with the unpacked packages.
pub(crate) const PROGRAMS: &str = "programs";

impl PreloadedImage {
    fn new(names: &[String], entrypoint: &[&str]) -> Self {
        let entrypoint = entrypoint.iter().map(|&part| part.to_owned()).collect();
        Self { names: names.to_vec(), entrypoint, ..Self::default() }
    }

    /// Adds a program that is built from a Go module, at the path `at`.
    fn with_program(mut self, name: &str, at: &str) -> Self {
        self.files.insert(at.to_owned(), format!("/{PROGRAMS}/{name}"));
        self
    }

    /// Adds a file or folder from a Debian package, at the same path.
    fn with(mut self, path: &str) -> Self {
        self.files.insert(path.to_owned(), path.to_owned());
        self
    }

    fn with_link(mut self, at: &str, to: &str) -> Self {
        self.links.insert(at.to_owned(), to.to_owned());
        self
    }

    /// Adds Debian's default users and groups, for programs that look them up.
    fn with_users(mut self) -> Self {
        for (at, from) in [("/etc/passwd", "passwd.master"), ("/etc/group", "group.master")] {
            self.files.insert(at.to_owned(), format!("/usr/share/base-passwd/{from}"));
        }
        self
    }

    /// Adds a shell and common debugging commands.
    fn with_shell(self) -> Self {
        let with_program = self.with("/usr/bin/busybox");
        ["sh", "cat", "cp", "ip", "ls", "nc", "ping", "ps", "sleep", "wget"]
            .iter()
            .fold(with_program, |image, name| image.with_link(&format!("/bin/{name}"), "/usr/bin/busybox"))
    }

    /// Adds packet filter tools, and the libraries that iptables loads for matches and targets.
    fn with_packet_filter(self) -> Self {
        let filter = self
            .with("/usr/sbin/xtables-nft-multi")
            .with("/usr/sbin/nft")
            .with("/usr/sbin/conntrack")
            .with(&format!("{LIBRARIES}/xtables"));
        IPTABLES
            .iter()
            .fold(filter, |image, name| image.with_link(&format!("/usr/sbin/{name}"), "xtables-nft-multi"))
    }
}

/// Returns a node's images under the names that kubeadm and the add-on manifests use. kubeadm doesn't pull images that
/// are already present.
pub(crate) fn images(release: &SupportedRelease) -> Vec<PreloadedImage> {
    let registry = |name: &str| format!("registry.k8s.io/{name}");
    let defaults = &release.defaults;
    let control_plane = |name: &str| {
        let names = [registry(&format!("{name}:{}", release.version))];
        PreloadedImage::new(&names, &[name]).with_program(name, &format!("/usr/local/bin/{name}"))
    };
    // Each image is available under the version that is built (the OVF properties contain it) and under kubeadm's default tag.
    let both = |image: &str, own: String, default: &str| {
        let mut names = vec![registry(&format!("{image}:{own}"))];
        if own != default {
            names.push(registry(&format!("{image}:{default}")));
        }
        names
    };
    vec![
        control_plane("kube-apiserver"),
        control_plane("kube-controller-manager"),
        control_plane("kube-scheduler"),
        control_plane("kube-proxy").with_packet_filter(),
        PreloadedImage::new(&both("etcd", SupportedRelease::etcd_tag(), defaults.etcd), &["etcd"])
            .with_program("etcd", "/usr/local/bin/etcd"),
        PreloadedImage::new(&both("coredns/coredns", format!("v{COREDNS}"), defaults.coredns), &["/coredns"])
            .with_program("coredns", "/coredns"),
        PreloadedImage {
            files: [("/pause".to_owned(), "/usr/bin/catatonit".to_owned())].into(),
            ..PreloadedImage::new(&[pause(release)], &["/pause", "-P"])
        },
        PreloadedImage::new(&[format!("ghcr.io/flannel-io/flannel:v{FLANNEL}")], &["/opt/bin/flanneld"])
            .with_program("flanneld", "/opt/bin/flanneld")
            .with_packet_filter()
            .with_shell(),
        PreloadedImage::new(&[FLANNEL_PLUGIN.to_owned()], &["/flannel"])
            .with_program("flannel", "/flannel")
            .with_shell(),
        PreloadedImage::new(
            &[registry(&format!("metrics-server/metrics-server:v{METRICS_SERVER}"))],
            &["/metrics-server"],
        )
        .with_program("metrics-server", "/metrics-server"),
        PreloadedImage::new(
            &[format!("{}:{}", KEEPALIVED.0, KEEPALIVED.1)],
            &["/usr/sbin/keepalived", "--dont-fork", "--log-console"],
        )
        .with("/usr/sbin/keepalived")
        // keepalived doesn't start without this file.
        .with("/etc/keepalived/keepalived.config-opts")
        .with_users()
        .with_packet_filter()
        .with_shell(),
    ]
}

/// Returns the images for a management cluster's upstream components, under their published names.
pub(crate) fn management_images() -> Vec<PreloadedImage> {
    let upstream = COMPONENTS.iter().filter_map(|component| match component.source {
        ManifestSource::Upstream { manifests, .. } => Some((component, manifests)),
        ManifestSource::Config(_) => None,
    });
    upstream
        .map(|(component, manifests)| {
            let name = component.image_reference(&Registries::default());
            PreloadedImage::new(&[name], &["/manager"]).with_program(manifests, "/manager")
        })
        .collect()
}

/// Returns the references of all container images that a node with this release contains.
pub fn image_names(release: &SupportedRelease) -> Vec<String> {
    images(release).into_iter().flat_map(|image| image.names).collect()
}

/// The image from which flannel's manifest copies the CNI plugin.
const FLANNEL_PLUGIN: &str = "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1";
/// The repository and tag of the image with Debian's keepalived. The image isn't published in a registry.
pub(crate) const KEEPALIVED: (&str, &str) = ("localhost/layercake/keepalived", "debian-13");

/// Returns the reference of the sandbox image, with which the container runtime starts every Pod.
pub(crate) fn pause(release: &SupportedRelease) -> String {
    format!("registry.k8s.io/pause:{}", release.defaults.pause)
}

/// Returns a program's path on the node, relative to the root folder, or `None` if the program isn't installed on the
/// node itself.
pub(crate) fn place_on_node(program: &str) -> Option<String> {
    if CNI_TOOLS.iter().any(|tool| tool.name == program) {
        return Some(format!("opt/cni/bin/{program}"));
    }
    let of_node =
        ["kubelet", "kubeadm", "kubectl", "containerd", "containerd-shim-runc-v2", "ctr"].contains(&program);
    of_node.then(|| format!("usr/bin/{program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(version: &str) -> Vec<String> {
        image_names(SupportedRelease::find(version).unwrap())
    }

    #[test]
    fn images_have_the_names_that_kubeadm_lists() {
        let of_1_36 = names("v1.36");
        for image in [
            "kube-apiserver:v1.36.3",
            "etcd:3.6.8-0",
            "etcd:3.6.14-0",
            "coredns/coredns:v1.14.2",
            "pause:3.10.2",
        ] {
            assert!(of_1_36.contains(&format!("registry.k8s.io/{image}")), "{image}");
        }
        let of_1_35 = names("v1.35");
        for image in [
            "kube-proxy:v1.35.4",
            "etcd:3.6.6-0",
            "coredns/coredns:v1.13.1",
            "coredns/coredns:v1.14.2",
            "pause:3.10.1",
        ] {
            assert!(of_1_35.contains(&format!("registry.k8s.io/{image}")), "{image}");
        }
    }

    #[test]
    fn every_program_has_a_place() {
        let release = SupportedRelease::find("v1.36").unwrap();
        let text = serde_json::to_string(&images(release)).unwrap();
        for tool in release.tools().concat().iter().filter(|tool| tool.name != "preload") {
            let in_image = text.contains(&format!("\"/{PROGRAMS}/{}\"", tool.name));
            assert!(in_image || place_on_node(tool.name).is_some(), "{}", tool.name);
        }
        assert_eq!(place_on_node("bridge").as_deref(), Some("opt/cni/bin/bridge"));
    }

    #[test]
    fn components_have_the_programs_that_are_built() {
        let images = management_images();
        let programs: Vec<_> =
            plane::tools::managers().map(|tool| format!("/{PROGRAMS}/{}", tool.name)).collect();
        assert_eq!(images.iter().map(|image| image.files["/manager"].clone()).collect::<Vec<_>>(), programs);
        assert_eq!(images[0].names, ["registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2"]);
    }

    #[test]
    fn a_name_stands_for_one_image() {
        let mut all = names("v1.36");
        all.sort();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
