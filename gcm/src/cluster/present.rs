//! What a cluster runs, read from its own objects: a release or an image may go, and the cluster is still to be
//! scaled, repaired and called what it is.

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::release::ContainerImage;
use api::names::label;
use kube::ResourceExt;
use serde_json::Value;

use super::gather::Facts;
use super::objects::kubeadm::REHASH;
use super::objects::release_label;
use crate::admission::version;
use crate::releases::{NodeImage, Release};
use crate::resolution::Offer;

/// The release and the image of the control plane, if it is the release the cluster asks for.
pub fn release(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<(Release, NodeImage)> {
    let version = version::current(tkc)?;
    let live = facts.control_plane.as_ref()?;
    if live.labels().get(label::TKR)? != &release_label(&version) {
        return None;
    }
    let spec = serde_json::to_value(&live.spec).ok()?;
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let part = |path: &str| -> Option<ContainerImage> {
        serde_json::from_value(
            spec.pointer(&format!("/kubeadmConfigSpec/clusterConfiguration/{path}"))?.clone(),
        )
        .ok()
    };
    let release = Release {
        name: version.object_name(),
        offer: Offer::of(version),
        kubernetes: live.spec.version.clone(),
        image_repository: text("/kubeadmConfigSpec/clusterConfiguration/imageRepository"),
        etcd: part("etcd/local"),
        coredns: part("dns"),
        os_images: Vec::new(),
    };
    let commands = spec.pointer("/kubeadmConfigSpec/preKubeadmCommands").and_then(Value::as_array);
    let photon = commands.into_iter().flatten().any(|command| command == REHASH);
    let labels = photon.then(|| ("os-name".to_owned(), "photon".to_owned()));
    let name = image(facts)?.to_owned();
    Some((release, NodeImage { name, labels: BTreeMap::from_iter(labels) }))
}

/// The image of the control plane's machines.
pub fn image(facts: &Facts) -> Option<&str> {
    let template = &facts.control_plane.as_ref()?.spec.machine_template.spec.infrastructure_ref.name;
    let template = facts.machine_templates.iter().find(|live| live.name_any() == *template)?;
    Some(template.spec.template.spec.image_name.as_str())
}
