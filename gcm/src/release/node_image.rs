//! The machine images a node can be made from, and which of them a cluster takes.

use std::collections::BTreeMap;

use api::gcm::OSImage;
use api::names::{annotation, label};
use kube::ResourceExt;
use kube::core::SelectorExt;

use super::labels::os_labels;
use super::networks::CarriedNetworks;
use super::query;

/// A machine image a node can be made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseImage {
    /// The name of the VirtualMachineImage.
    pub name: String,
    /// What a selector can ask for: `os-name`, `os-version`, `os-arch`, `os-type`, and the labels of the object.
    pub labels: BTreeMap<String, String>,
    /// The image of keepalived that it contains.
    pub keepalived: Option<String>,
    /// Its container networks, if they are known.
    pub networks: Option<CarriedNetworks>,
}

impl ReleaseImage {
    /// Reads an OSImage; one of another infrastructure is none for us.
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

    /// Returns false for an image of Windows: kubeadm of Cluster API makes no nodes of Windows.
    pub fn can_boot_nodes(&self) -> bool {
        self.labels.get("os-type").is_none_or(|kind| kind != "windows")
    }
}

/// The image a cluster's nodes are made from: the first that `query` matches. Without a query Photon is preferred.
///
/// The image of the present nodes stays while it fits: an image that joins a release replaces no nodes, nor does one that
/// comes to call itself incompatible. No other nodes are made from such an image.
pub fn choose<'i>(
    images: &'i [ReleaseImage],
    query: Option<&str>,
    present: Option<&str>,
) -> Option<&'i ReleaseImage> {
    let query = query.map(str::trim).filter(|query| !query.is_empty());
    // Admission refuses a query that cannot be read; one that came before matches nothing.
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
