//! Machine images for nodes, and how a cluster chooses one.

use std::collections::BTreeMap;

use api::gcm::OSImage;
use api::names::{annotation, label};
use kube::ResourceExt;
use kube::core::SelectorExt;

use super::labels::os_labels;
use super::networks::CarriedNetworks;
use super::query;

/// A machine image for nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseImage {
    /// The name of the VirtualMachineImage.
    pub name: String,
    /// The labels that a selector can match: `os-name`, `os-version`, `os-arch`, `os-type`, and the object's labels.
    pub labels: BTreeMap<String, String>,
    /// The keepalived container image in the node image.
    pub keepalived: Option<String>,
    /// The container networks in the image, or `None` if unknown.
    pub networks: Option<CarriedNetworks>,
}

impl ReleaseImage {
    /// Parses an OSImage. Returns `None` if the image is for another infrastructure or doesn't name a VirtualMachineImage.
    pub fn of(image: &OSImage) -> Option<Self> {
        if !matches!(image.spec.image.type_.as_str(), "vmop" | "vmi") {
            return None;
        }
        let name = image.spec.image.r#ref.get("name")?.as_str()?.to_owned();
        let mut labels = image.labels().clone();
        labels.extend(os_labels(&image.spec));
        let keepalived = image.annotations().get(annotation::KEEPALIVED_IMAGE).cloned();
        let networks = CarriedNetworks::read(image.annotations());
        Some(Self { name, labels, keepalived, networks })
    }

    /// Returns false for a Windows image: Cluster API's kubeadm provider doesn't support Windows nodes.
    pub fn can_boot_nodes(&self) -> bool {
        self.labels.get("os-type").is_none_or(|kind| kind != "windows")
    }
}

/// Chooses the image for a cluster's nodes: the first one that `query` matches. Without a query, Photon is preferred. Images
/// that can't boot nodes are never chosen.
///
/// Keeps `present`, the nodes' current image, while the query matches it, even if the image is now marked as incompatible: a
/// new image in the release doesn't replace nodes. Other incompatible images are never chosen.
pub fn choose<'i>(
    images: &'i [ReleaseImage],
    query: Option<&str>,
    present: Option<&str>,
) -> Option<&'i ReleaseImage> {
    let query = query.map(str::trim).filter(|query| !query.is_empty());
    // Admission denies unparseable queries. If such a query was stored earlier, it doesn't match any image.
    let selector = query.map(query::parse).transpose().ok()?;
    let matches =
        |image: &&ReleaseImage| selector.as_ref().is_none_or(|selector| selector.matches(&image.labels));
    let fits = |image: &&ReleaseImage| image.can_boot_nodes() && matches(image);
    let photon = |image: &&ReleaseImage| image.labels.get("os-name").is_some_and(|os| os == "photon");
    let fitting = || images.iter().filter(&fits);
    let kept = present.and_then(|name| fitting().find(|image| image.name == name));
    let usable = || fitting().filter(|image| !image.labels.contains_key(label::INCOMPATIBLE));
    let preferred = || usable().find(|image| query.is_none() && photon(image));
    kept.or_else(preferred).or_else(|| usable().next())
}
