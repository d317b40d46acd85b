//! Releases: from node images to TanzuKubernetesRelease and OSImage objects, and back to what a cluster needs.
//!
//! An image says in its OVF properties which release it carries. For each image there is an OSImage of the same
//! name; images of one release share a TanzuKubernetesRelease. Both kinds may also be written by hand, for images
//! that say nothing: those are read, their status is kept, and their spec is left alone.

pub mod catalogue;
pub mod controller;
pub mod image;
pub mod plan;
pub mod status;

use std::collections::BTreeMap;

use api::gcm::release::ContainerImage;
use api::gcm::{OSImage, TanzuKubernetesRelease};
use api::names::label;
use kube::ResourceExt;

use crate::resolution::{self, Offer};
use crate::version::{NotAVersion, Version};

/// On releases and OSImages that this program makes; those without it belong to somebody else.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "gcm");

/// A release as clusters use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// The name of the TanzuKubernetesRelease.
    pub name: String,
    /// What resolution needs.
    pub offer: Offer,
    /// The version of Kubernetes, with `v`.
    pub kubernetes: String,
    /// Where the images of Kubernetes come from.
    pub image_repository: Option<String>,
    /// The image of etcd.
    pub etcd: Option<ContainerImage>,
    /// The image of CoreDNS.
    pub coredns: Option<ContainerImage>,
    /// The names of its OSImages, in their order.
    pub os_images: Vec<String>,
}

impl Release {
    /// Reads a release object.
    pub fn of(tkr: &TanzuKubernetesRelease) -> Result<Self, NotAVersion> {
        let version = Version::parse(&tkr.spec.version)?;
        let kubernetes = match Version::parse(&tkr.spec.kubernetes.version) {
            Ok(kubernetes) => kubernetes,
            Err(_) if tkr.spec.kubernetes.version.is_empty() => version.clone(),
            Err(error) => return Err(error),
        };
        let unfit = marked(tkr).or_else(|| resolution::incompatibility(&kubernetes));
        Ok(Self {
            name: tkr.name_any(),
            offer: Offer { version, unfit },
            kubernetes: kubernetes.to_string(),
            image_repository: tkr.spec.kubernetes.image_repository.clone(),
            etcd: tkr.spec.kubernetes.etcd.clone(),
            coredns: tkr.spec.kubernetes.coredns.clone(),
            os_images: tkr.spec.os_images.iter().map(|reference| reference.name.clone()).collect(),
        })
    }
}

/// Why a label takes the release out of use, or nothing.
fn marked(tkr: &TanzuKubernetesRelease) -> Option<String> {
    let labels = tkr.labels();
    [label::INCOMPATIBLE, label::DEACTIVATED, label::DELETED, label::INVALID]
        .iter()
        .find(|mark| labels.contains_key(**mark))
        .map(|mark| format!("the release is labelled {mark}"))
}

/// A machine image a node can be made from.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeImage {
    /// The name of the VirtualMachineImage.
    pub name: String,
    /// What a selector can ask for: `os-name`, `os-version`, `os-arch`, `os-type`, and the labels of the object.
    pub labels: BTreeMap<String, String>,
}

impl NodeImage {
    /// Reads an OSImage; one of another infrastructure is none for us.
    pub fn of(image: &OSImage) -> Option<Self> {
        if !matches!(image.spec.image.type_.as_str(), "vmop" | "vmi") {
            return None;
        }
        let name = image.spec.image.r#ref.get("name")?.as_str()?.to_owned();
        let mut labels = image.labels().clone();
        labels.extend(plan::os_labels(&image.spec));
        Some(Self { name, labels })
    }
}

/// The image a cluster's nodes are made from: the first that `query` matches. Without a query Photon is preferred.
///
/// The image of the present nodes stays while it fits: an image that joins a release replaces no nodes.
pub fn choose<'i>(
    images: &'i [NodeImage],
    query: Option<&str>,
    present: Option<&str>,
) -> Option<&'i NodeImage> {
    let query = query.map(str::trim).filter(|query| !query.is_empty());
    let fits = |image: &&NodeImage| query.is_none_or(|query| selects(query, &image.labels));
    let photon = |image: &&NodeImage| image.labels.get("os-name").is_some_and(|os| os == "photon");
    let fitting = || images.iter().filter(fits);
    let kept = present.and_then(|name| fitting().find(|image| image.name == name));
    let preferred = || fitting().find(|image| query.is_none() && photon(image));
    kept.or_else(preferred).or_else(|| fitting().next())
}

/// Whether labels satisfy a query: `key=value`, `key==value`, `key!=value`, `key`, `!key`, joined by commas.
fn selects(query: &str, labels: &BTreeMap<String, String>) -> bool {
    query.split(',').map(str::trim).filter(|term| !term.is_empty()).all(|term| {
        if let Some((key, value)) = term.split_once("!=") {
            labels.get(key.trim()).map(String::as_str) != Some(value.trim())
        } else if let Some((key, value)) = term.split_once('=') {
            labels.get(key.trim()).map(String::as_str) == Some(value.trim_start_matches('=').trim())
        } else if let Some(key) = term.strip_prefix('!') {
            !labels.contains_key(key.trim())
        } else {
            labels.contains_key(term)
        }
    })
}

#[cfg(test)]
mod tests;
