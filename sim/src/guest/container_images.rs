//! The container images that the site's node images hold. Nodes have no way out: what is not here can't be pulled.

use k8s_openapi::api::core::v1::{Container, Pod};

/// The registry name under which VMware's node images hold theirs.
const REPOSITORY: &str = "localhost:5000/vmware.io/";
/// What is held under other names: the default container network and metrics, as releases without VMware's bundles name them.
const HELD: [&str; 6] = [
    "ghcr.io/flannel-io/flannel:v0.28.10",
    "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
    "registry.k8s.io/metrics-server/metrics-server:v0.9.0",
    "registry.k8s.io/pause:3.9",
    "registry.k8s.io/pause:3.10",
    "registry.k8s.io/pause:3.10.1",
];

/// All containers of a Pod, those first that run first.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    init.iter().chain(spec.map(|spec| spec.containers.as_slice()).unwrap_or_default())
}

/// The container whose image the node has not, if there is one.
pub(super) fn missing(pod: &Pod) -> Option<&Container> {
    containers(pod).find(|container| {
        let image = container.image.as_deref().unwrap_or_default();
        let held = image.starts_with(REPOSITORY) || HELD.contains(&image);
        // The registry is asked each time, and there is no way to it.
        !held || container.image_pull_policy.as_deref() == Some("Always")
    })
}
