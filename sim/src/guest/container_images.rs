//! A node's container images: images in its node image, pulled images, and the registries that it can reach.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{Container, Pod};
use parking_lot::Mutex;

use super::disk::Disk;
use crate::kubeadm_images::COMPONENTS;

/// The file that lists pulled images on the node's disk. It survives reboots, like containerd's image store.
const PULLED: &str = "/var/lib/pulled-images";
/// Images in public registries, in addition to kubeadm's images, which `is_public` recognizes by name.
const PUBLIC: [&str; 5] = [
    "ghcr.io/flannel-io/flannel:v0.28.10",
    "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
    "ghcr.io/kube-vip/kube-vip:v1.0.1",
    "registry.k8s.io/metrics-server/metrics-server:v0.9.0",
    "registry.k8s.io/e2e-test-images/agnhost:2.53",
];
const KUBERNETES: &str = "registry.k8s.io/";

/// The public and private registries of a site, and their reachability for its nodes. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Registries>);

#[derive(Debug, Default)]
struct Registries {
    reachable: AtomicBool,
    /// CA certificates (PEM) that signed the private registries' certificates, by registry host.
    private: Mutex<BTreeMap<String, String>>,
}

impl Registry {
    /// Creates the public registries. `reachable` is true if nodes can reach them.
    pub fn new(reachable: bool) -> Self {
        Self(Arc::new(Registries { reachable: reachable.into(), private: Mutex::default() }))
    }

    /// Connects all nodes to the registries, or disconnects them.
    pub fn set_reachable(&self, reachable: bool) {
        self.0.reachable.store(reachable, Ordering::Relaxed);
    }

    /// Adds a private registry that contains every image below `host`. `authority` is the CA certificate (PEM) that
    /// signed the registry's certificate.
    pub fn add_private(&self, host: &str, authority: &str) {
        self.0.private.lock().insert(host.to_owned(), authority.to_owned());
    }

    /// Returns the reason why the node with this disk can't pull an image, or `None` if it can.
    fn explain_failure(&self, disk: &Disk, image: &str) -> Option<&'static str> {
        if image.starts_with("localhost") {
            return Some("failed to do request: dial tcp: connect: connection refused");
        }
        if !self.0.reachable.load(Ordering::Relaxed) {
            return Some("failed to do request: dial tcp: connect: network is unreachable");
        }
        let host = image.split('/').next().unwrap_or_default();
        if let Some(authority) = self.0.private.lock().get(host) {
            return (!disk.containerd_trusts(authority)).then_some(
                "failed to do request: tls: failed to verify certificate: x509: certificate signed by unknown authority",
            );
        }
        (!is_public(image)).then_some("not found")
    }
}

/// Returns true if a public registry contains the image: a kubeadm image for any upstream release, or one in `PUBLIC`.
fn is_public(image: &str) -> bool {
    let of_kubernetes = || {
        let (name, tag) = image.strip_prefix(KUBERNETES)?.split_once(':')?;
        let version = tag.trim_start_matches('v');
        Some(match name {
            _ if COMPONENTS.contains(&name) => tag.starts_with('v') && is_release(version),
            "coredns/coredns" => tag.starts_with('v') && is_release(version),
            "etcd" => version.strip_suffix("-0").is_some_and(is_release),
            "pause" => ["3.9", "3.10", "3.10.1", "3.10.2"].contains(&tag),
            _ => false,
        })
    };
    PUBLIC.contains(&image) || of_kubernetes().unwrap_or(false)
}

/// Returns true if the version consists of exactly three numbers. A vendor suffix isn't allowed.
fn is_release(version: &str) -> bool {
    let parts: Vec<_> = version.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u16>().is_ok())
}

/// The container images that are available to one node.
#[derive(Clone, Debug, Default)]
pub struct ContainerImages {
    held: Arc<BTreeSet<String>>,
    registry: Registry,
    writing: Arc<Mutex<()>>,
}

impl ContainerImages {
    /// Combines the images in the node image with the images that the node can pull.
    pub fn new(held: Arc<BTreeSet<String>>, registry: Registry) -> Self {
        Self { held, registry, writing: Arc::default() }
    }

    /// Pulls an image unless it is already on the node.
    ///
    /// # Errors
    /// Returns an error if the image can't be pulled. The error is containerd's message.
    pub(super) fn pull(&self, disk: &Disk, image: &str) -> Result<(), String> {
        if self.held.contains(image) || pulled(disk).contains(image) {
            return Ok(());
        }
        self.ask_registry(disk, image)?;
        let _one = self.writing.lock();
        let mut all = pulled(disk);
        all.insert(image.to_owned());
        disk.write(PULLED, Vec::from_iter(all).join("\n")).map_err(|failure| failure.message)
    }

    fn ask_registry(&self, disk: &Disk, image: &str) -> Result<(), String> {
        match self.registry.explain_failure(disk, image) {
            None => Ok(()),
            Some(reason) => Err(format!(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {reason}"
            )),
        }
    }

    /// Pulls the Pod's images as the kubelet does. Returns the first container whose image isn't available, with the
    /// error message, or `None` if all images are available.
    pub(super) fn missing<'p>(&self, disk: &Disk, pod: &'p Pod) -> Option<(&'p Container, String)> {
        containers(pod).find_map(|container| {
            let image = container.image.as_deref().unwrap_or_default();
            // With this policy, the kubelet always asks the registry.
            let always = container.image_pull_policy.as_deref() == Some("Always");
            let error = if always { self.ask_registry(disk, image) } else { self.pull(disk, image) }.err()?;
            Some((container, error))
        })
    }
}

fn pulled(disk: &Disk) -> BTreeSet<String> {
    disk.read(PULLED).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Returns all containers of a Pod in start order: init containers first.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    init.iter().chain(spec.map(|spec| spec.containers.as_slice()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::sample;

    #[test]
    fn an_image_is_held_by_name_and_tag_or_pulled_once() {
        let (_folder, disk) = sample::disk();
        let registry = Registry::new(true);
        let held = BTreeSet::from(["localhost:5000/vmware.io/etcd:v1".to_owned()]);
        let images = ContainerImages::new(Arc::new(held), registry.clone());
        let pull = |image: &str| images.pull(&disk, image);
        assert_eq!(pull("localhost:5000/vmware.io/etcd:v1"), Ok(()));
        assert!(pull("localhost:5000/vmware.io/etcd:v2").is_err_and(|error| error.contains("refused")));
        assert!(pull("ghcr.io/kube-vip/kube-vip:v0").is_err_and(|error| error.contains("not found")));
        assert_eq!(pull("ghcr.io/kube-vip/kube-vip:v1.0.1"), Ok(()));
        registry.set_reachable(false);
        assert_eq!(pull("ghcr.io/kube-vip/kube-vip:v1.0.1"), Ok(()), "it was pulled before");
        assert!(pull("registry.k8s.io/pause:3.10").is_err_and(|error| error.contains("unreachable")));
        let pod = |policy: &str| -> Pod {
            let container = serde_json::json!({
                "name": "a", "image": "ghcr.io/kube-vip/kube-vip:v1.0.1", "imagePullPolicy": policy,
            });
            serde_json::from_value(serde_json::json!({"spec": {"containers": [container]}})).unwrap()
        };
        assert!(images.missing(&disk, &pod("IfNotPresent")).is_none());
        assert!(images.missing(&disk, &pod("Always")).is_some());
        registry.set_reachable(true);
        registry.add_private("registry.corp.example", "authority");
        let unknown = pull("registry.corp.example/app:v1").unwrap_err();
        assert!(unknown.ends_with("certificate signed by unknown authority"), "{unknown}");
    }

    #[test]
    fn public_registries_have_what_upstream_made() {
        for (image, there) in [
            ("registry.k8s.io/kube-apiserver:v1.33.1", true),
            ("registry.k8s.io/kube-apiserver:v1.33.1_vmware.1-fips", false),
            ("registry.k8s.io/kube-apiserver:1.33.1", false),
            ("registry.k8s.io/etcd:3.6.4-0", true),
            ("registry.k8s.io/etcd:v3.6.4", false),
            ("registry.k8s.io/coredns/coredns:v1.12.1", true),
            ("registry.k8s.io/coredns:v1.12.1", false),
            ("registry.k8s.io/pause:3.10", true),
            ("example.com/vip:1", false),
        ] {
            assert_eq!(is_public(image), there, "{image}");
        }
    }
}
