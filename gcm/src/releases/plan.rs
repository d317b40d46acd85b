//! The objects that stand for the releases images carry.

use std::collections::BTreeMap;

use api::gcm::release::{LocalReference, MachineImage};
use api::gcm::{OSImage, OSImageSpec, TanzuKubernetesRelease, TanzuKubernetesReleaseSpec};
use api::names::label;
use api::vmop::VirtualMachineImage;
use kit::apply::controlled_by;
use kube::ResourceExt;

use super::image::CarriedRelease;
use super::labels::{MANAGED_BY, os_labels};

/// The OSImage that stands for an image, of the same name; it goes with its image.
pub fn os_image(image: &VirtualMachineImage, carried: &CarriedRelease) -> OSImage {
    let spec = OSImageSpec {
        kubernetes_version: carried.kubernetes.version.clone(),
        os: carried.os.clone(),
        image: MachineImage {
            type_: "vmop".to_owned(),
            r#ref: BTreeMap::from([("name".to_owned(), image.name_any().into())]),
        },
    };
    let mut object = OSImage::new(&image.name_any(), spec);
    let mut labels = os_labels(&object.spec);
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    object.metadata.labels = Some(labels);
    object.metadata.owner_references = Some(vec![controlled_by(image)]);
    object
}

/// The release that images carry together, as the first of them by name describes it. None without an image.
pub fn release(images: &[(String, CarriedRelease)]) -> Option<TanzuKubernetesRelease> {
    let mut images: Vec<_> = images.iter().collect();
    images.sort_by(|a, b| a.0.cmp(&b.0));
    let (_, first) = images.first()?;
    let spec = TanzuKubernetesReleaseSpec {
        version: first.version.to_string(),
        kubernetes: first.kubernetes.clone(),
        os_images: images.iter().map(|(name, _)| LocalReference { name: name.clone() }).collect(),
        bootstrap_packages: first.packages.clone(),
    };
    let mut labels: BTreeMap<String, String> = first
        .version
        .prefixes()
        .into_iter()
        .filter(|key| key.len() <= 63)
        .map(|key| (key, String::new()))
        .collect();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if first.packages.is_empty() {
        labels.insert(label::LEGACY_TKR.to_owned(), String::new());
    }
    let mut object = TanzuKubernetesRelease::new(&first.version.object_name(), spec);
    object.metadata.labels = Some(labels);
    Some(object)
}
