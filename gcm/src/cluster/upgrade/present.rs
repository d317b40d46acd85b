//! Derives a cluster's release and image from the cluster's own objects, so that the cluster can still be scaled, repaired and
//! reported after the release or image was deleted.

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::release::ContainerImage;
use api::names::label;
use kube::ResourceExt;

use crate::cluster::facts::Facts;
use crate::cluster::input::release_label;
use crate::release::resolution::AvailableRelease;
use crate::release::trust_store::TrustStore;
use crate::release::{KubernetesRelease, ReleaseImage};
use crate::spec::release::current_version;

/// Returns the release and image of the control plane, if the cluster requests that release.
pub fn release(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<(KubernetesRelease, ReleaseImage)> {
    let version = current_version(tkc)?;
    let live = facts.control_plane.as_ref()?;
    if live.labels().get(label::TKR)? != &release_label(&version) {
        return None;
    }
    let config = live.spec.kubeadm_config_spec.as_ref();
    let kubeadm = config.and_then(|config| config.cluster_configuration.as_ref());
    let etcd = kubeadm.and_then(|kubeadm| kubeadm.etcd.as_ref()?.local.as_ref());
    let dns = kubeadm.and_then(|kubeadm| kubeadm.dns.as_ref());
    let release = KubernetesRelease {
        candidate: AvailableRelease::of(version),
        kubernetes: live.spec.version.clone(),
        image_repository: kubeadm.and_then(|kubeadm| kubeadm.image_repository.clone()),
        etcd: etcd.map(|etcd| ContainerImage {
            image_repository: etcd.image_repository.clone(),
            image_tag: etcd.image_tag.clone(),
        }),
        coredns: dns.map(|dns| ContainerImage {
            image_repository: dns.image_repository.clone(),
            image_tag: dns.image_tag.clone(),
        }),
        os_images: Vec::new(),
    };
    let commands = config.and_then(|config| config.pre_kubeadm_commands.as_deref()).unwrap_or_default();
    // A cluster's objects don't name the operating system, and the OSImage may be gone. Only the command that collects
    // additional authorities identifies it. Without that command, the operating system doesn't matter.
    let store = TrustStore::of_commands(commands);
    let labels = store.map(|store| ("os-name".to_owned(), store.os_name().to_owned()));
    let name = image(facts)?.to_owned();
    Some((release, ReleaseImage { name, labels: BTreeMap::from_iter(labels), ..ReleaseImage::default() }))
}

/// Returns the name of the control plane's node image.
pub fn image(facts: &Facts) -> Option<&str> {
    let template = &facts.control_plane.as_ref()?.spec.machine_template.spec.infrastructure_ref.name;
    let template = facts.machine_templates.iter().find(|live| live.name_any() == *template)?;
    Some(template.spec.template.spec.image_name.as_str())
}
