//! Plans the OSImages and TanzuKubernetesReleases for node images.

use std::collections::BTreeMap;

use api::gcm::release::{LocalReference, MachineImage};
use api::gcm::{OSImage, OSImageSpec, TanzuKubernetesRelease, TanzuKubernetesReleaseSpec};
use api::names::{annotation, label};
use api::vmop::VirtualMachineImage;
use kit::apply::build_controller_reference;
use kube::ResourceExt;

use super::conflict::{self, ReleaseFacts, established};
use super::image::CarriedRelease;
use super::labels::{MANAGED_BY, os_labels};
use super::networks::CarriedNetworks;
use super::resolution::prefix_labels;

/// Returns the OSImage for a VirtualMachineImage. The OSImage has the same name, and the VirtualMachineImage owns it.
pub fn os_image(
    image: &VirtualMachineImage,
    carried: &CarriedRelease,
    networks: &CarriedNetworks,
) -> OSImage {
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
    if carried.incompatible.is_some() {
        labels.insert(label::INCOMPATIBLE.to_owned(), String::new());
    }
    object.metadata.labels = Some(labels);
    let mut annotations = carried.incompatible.as_deref().map(incompatible_reason).unwrap_or_default();
    annotations.extend(
        carried.keepalived.iter().map(|image| (annotation::KEEPALIVED_IMAGE.to_owned(), image.clone())),
    );
    annotations.extend(networks.annotations());
    object.metadata.annotations = Some(annotations);
    object.metadata.owner_references = Some(vec![build_controller_reference(image)]);
    object
}

/// Returns the release for these images, or `None` without images.
///
/// Once published, a release keeps the Kubernetes version and the packages in `live`, and lists only images that have the same.
/// If `live` doesn't have them yet, all images must agree.
pub fn release(
    images: &[(String, CarriedRelease)],
    live: Option<&TanzuKubernetesRelease>,
) -> Option<TanzuKubernetesRelease> {
    let (_, any) = images.first()?;
    let facts = established(live).or_else(|| conflict::agreed(images));
    let disagree = conflict::explain(images, live).is_some();
    let mut spec = TanzuKubernetesReleaseSpec { version: any.version.to_string(), ..Default::default() };
    if let Some(ReleaseFacts { kubernetes, packages }) = &facts {
        spec.kubernetes = kubernetes.clone();
        spec.bootstrap_packages.clone_from(packages);
        spec.os_images = own_images(images, facts.as_ref(), live);
    }
    let mut labels = prefix_labels(&any.version);
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if facts.as_ref().is_some_and(|facts| facts.packages.is_empty()) {
        labels.insert(label::LEGACY_TKR.to_owned(), String::new());
    }
    if disagree {
        labels.insert(label::CONFLICTING_OS_IMAGES.to_owned(), String::new());
    }
    let incompatible = incompatible(images, facts.as_ref());
    if incompatible.is_some() {
        labels.insert(label::INCOMPATIBLE.to_owned(), String::new());
    }
    let mut object = TanzuKubernetesRelease::new(&any.version.object_name(), spec);
    object.metadata.labels = Some(labels);
    object.metadata.annotations = incompatible.map(incompatible_reason);
    Some(object)
}

fn incompatible_reason(why: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(annotation::INCOMPATIBLE_REASON.to_owned(), why.to_owned())])
}

/// Returns the reason why the release is incompatible, if all its images are incompatible. With several images, the first image
/// by name provides the reason.
fn incompatible<'i>(images: &'i [(String, CarriedRelease)], facts: Option<&ReleaseFacts>) -> Option<&'i str> {
    let is_own = |carried: &CarriedRelease| facts.is_some_and(|facts| *facts == ReleaseFacts::of(carried));
    let any_own = images.iter().any(|(_, carried)| is_own(carried));
    let own = images.iter().filter(|(_, carried)| !any_own || is_own(carried));
    let mut words: Vec<_> = own.map(|(name, carried)| (name, carried.incompatible.as_deref())).collect();
    words.sort_unstable();
    if words.iter().any(|(_, why)| why.is_none()) { None } else { words.first().and_then(|(_, why)| *why) }
}

/// Returns the images that agree with the release, sorted by name, or the images in `live` if all disagree.
fn own_images(
    images: &[(String, CarriedRelease)],
    facts: Option<&ReleaseFacts>,
    live: Option<&TanzuKubernetesRelease>,
) -> Vec<LocalReference> {
    let agreeing = images.iter().filter(|(_, carried)| Some(&ReleaseFacts::of(carried)) == facts);
    let mut names: Vec<_> = agreeing.map(|(name, _)| LocalReference { name: name.clone() }).collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    if names.is_empty() {
        return live.map(|live| live.spec.os_images.clone()).unwrap_or_default();
    }
    names
}
