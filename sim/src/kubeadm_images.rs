//! The default container images of kubeadm.

/// The default image repository of kubeadm.
pub const REGISTRY: &str = "registry.k8s.io";

/// The Kubernetes components whose image tag is the Kubernetes version.
pub const COMPONENTS: [&str; 4] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"];

/// kubeadm's default tags for images that Kubernetes doesn't version itself.
#[derive(Clone, Copy, Debug)]
pub struct DefaultTags {
    pub etcd: &'static str,
    pub coredns: &'static str,
    pub pause: &'static str,
}

impl DefaultTags {
    /// Returns the tags in the constants of kubeadm 1.`minor`.0. Later patch releases can use a newer etcd.
    ///
    /// The pause tag is an approximation: 3.9 before 1.31, then 3.10.
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

/// Returns kubeadm's default images for a Kubernetes version, including the pause image.
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

/// Returns the minor number of a Kubernetes version, or 0 if the version can't be parsed.
pub fn minor(version: &str) -> u64 {
    semver::Version::parse(version.trim_start_matches('v')).map_or(0, |version| version.minor)
}
