//! The machine images a node can be made from, and which of them a cluster takes.

use std::collections::BTreeMap;

use api::gcm::OSImage;
use kube::ResourceExt;
use kube::core::{Expression, Selector, SelectorExt};

use super::labels::os_labels;

/// A machine image a node can be made from.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseImage {
    /// The name of the VirtualMachineImage.
    pub name: String,
    /// What a selector can ask for: `os-name`, `os-version`, `os-arch`, `os-type`, and the labels of the object.
    pub labels: BTreeMap<String, String>,
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
        Some(Self { name, labels })
    }
}

/// The image a cluster's nodes are made from: the first that `query` matches. Without a query Photon is preferred.
///
/// The image of the present nodes stays while it fits: an image that joins a release replaces no nodes.
pub fn choose<'i>(
    images: &'i [ReleaseImage],
    query: Option<&str>,
    present: Option<&str>,
) -> Option<&'i ReleaseImage> {
    let query = query.map(str::trim).filter(|query| !query.is_empty());
    let selector = query.map(parse_selector);
    let fits =
        |image: &&ReleaseImage| selector.as_ref().is_none_or(|selector| selector.matches(&image.labels));
    let photon = |image: &&ReleaseImage| image.labels.get("os-name").is_some_and(|os| os == "photon");
    let fitting = || images.iter().filter(&fits);
    let kept = present.and_then(|name| fitting().find(|image| image.name == name));
    let preferred = || fitting().find(|image| query.is_none() && photon(image));
    kept.or_else(preferred).or_else(|| fitting().next())
}

/// A query as a selector: `key=value`, `key==value`, `key!=value`, `key`, `!key`, joined by commas.
fn parse_selector(query: &str) -> Selector {
    let text = |part: &str| part.trim().to_owned();
    let terms = query.split(',').map(str::trim).filter(|term| !term.is_empty());
    terms
        .map(|term| {
            if let Some((key, value)) = term.split_once("!=") {
                Expression::NotEqual(text(key), text(value))
            } else if let Some((key, value)) = term.split_once('=') {
                Expression::Equal(text(key), text(value.trim_start_matches('=')))
            } else if let Some(key) = term.strip_prefix('!') {
                Expression::DoesNotExist(text(key))
            } else {
                Expression::Exists(text(term))
            }
        })
        .collect()
}
