//! The container images that kubeadm names where its configuration names none.

/// Where kubeadm takes images from unless its configuration names another place.
pub const REGISTRY: &str = "registry.k8s.io";

/// The components of Kubernetes itself whose images kubeadm names.
pub const COMPONENTS: [&str; 4] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"];

/// The tags of images that kubeadm uses if its configuration contains none.
#[derive(Clone, Copy, Debug)]
pub struct DefaultTags {
    /// etcd's.
    pub etcd: &'static str,
    /// CoreDNS'.
    pub coredns: &'static str,
    /// That of the pause image.
    pub pause: &'static str,
}

impl DefaultTags {
    /// Those of a minor release's first patch, from kubeadm's constants. Later patches of some have a newer etcd.
    pub fn of(minor: u64) -> Self {
        let (etcd, coredns) = match minor {
            ..=22 => ("3.5.0-0", "v1.8.4"),
            23 => ("3.5.1-0", "v1.8.6"),
            24 => ("3.5.3-0", "v1.8.6"),
            25 => ("3.5.4-0", "v1.9.3"),
            26 => ("3.5.6-0", "v1.9.3"),
            27 => ("3.5.7-0", "v1.10.1"),
            28 => ("3.5.9-0", "v1.10.1"),
            29 => ("3.5.10-0", "v1.11.1"),
            30 => ("3.5.12-0", "v1.11.1"),
            31 => ("3.5.15-0", "v1.11.1"),
            32 => ("3.5.16-0", "v1.11.3"),
            33 => ("3.5.21-0", "v1.12.0"),
            34 => ("3.6.4-0", "v1.12.1"),
            35 => ("3.6.6-0", "v1.13.1"),
            36.. => ("3.6.8-0", "v1.14.2"),
        };
        let pause = if minor < 31 { "3.9" } else { "3.10" };
        Self { etcd, coredns, pause }
    }
}

/// The images that kubeadm of this release names where its configuration names none, with the pause image of its minor release.
pub fn kubeadm_images(version: &str) -> Vec<String> {
    let minor = minor(version);
    let DefaultTags { etcd, coredns, pause } = DefaultTags::of(minor);
    let tag = format!("v{}", version.trim_start_matches('v')).replace('+', "_");
    let others = [("etcd", etcd), ("coredns/coredns", coredns), ("pause", pause)];
    COMPONENTS
        .map(|name| (name, tag.as_str()))
        .into_iter()
        .chain(others)
        .map(|(name, tag)| format!("{REGISTRY}/{name}:{tag}"))
        .collect()
}

/// The minor number of a Kubernetes version; 0 if it has none.
pub fn minor(version: &str) -> u64 {
    semver::Version::parse(version.trim_start_matches('v')).map_or(0, |version| version.minor)
}
