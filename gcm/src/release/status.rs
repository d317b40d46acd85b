//! Computes the status of releases and OSImages.

use api::conditions::{Condition, ERROR, INFO, READY, WARNING, release as words};
use api::gcm::release::{OSImageStatus, TanzuKubernetesReleaseStatus};
use api::gcm::{OSImage, TanzuKubernetesRelease};
use api::names::{annotation, label};
use kube::ResourceExt;

use super::kubernetes_release::KubernetesRelease;
use super::node_image::ReleaseImage;
use super::resolution::{self, AvailableRelease};
use super::version::Version;

/// Returns a release's status. `has_image` returns true for existing OSImages, `disagreement` describes a conflict between the
/// release's images, and `available` contains all releases.
pub fn release(
    tkr: &TanzuKubernetesRelease,
    has_image: impl Fn(&str) -> bool,
    disagreement: Option<&str>,
    available: &[AvailableRelease],
) -> TanzuKubernetesReleaseStatus {
    let conditions = match KubernetesRelease::of(tkr) {
        Ok(release) => read(&release, has_image, disagreement, available),
        Err(error) => {
            let invalid =
                |type_| Condition::is_false(type_, ERROR, words::CANNOT_PARSE_TKR, error.to_string());
            vec![invalid(READY), invalid(words::VALID)]
        }
    };
    TanzuKubernetesReleaseStatus {
        conditions,
        type_: tkr.spec.bootstrap_packages.is_empty().then(|| "Legacy".to_owned()),
        observed_generation: tkr.metadata.generation,
    }
}

fn read(
    release: &KubernetesRelease,
    has_image: impl Fn(&str) -> bool,
    disagreement: Option<&str>,
    available: &[AvailableRelease],
) -> Vec<Condition> {
    let compatible = compatible(release.candidate.incompatible.as_deref());
    let valid = if let Some(disagreement) = disagreement {
        Condition::is_false(words::VALID, ERROR, words::CONFLICTING_OS_IMAGES, disagreement)
    } else if release.os_images.iter().any(|name| has_image(name)) {
        Condition::is_true(words::VALID)
    } else {
        let message = match release.os_images.as_slice() {
            [] => "spec.osImages names no OSImage".to_owned(),
            names => format!("none of its OSImages exists: {}", names.join(", ")),
        };
        Condition::is_false(words::VALID, WARNING, words::MISSING_OS_IMAGE, message)
    };
    let updates = resolution::find_updates(&release.candidate.version, available);
    let updates = updates_condition(words::UPDATES_AVAILABLE, &updates);
    let ready = [&valid, &compatible]
        .into_iter()
        .find(|condition| condition.status != api::conditions::TRUE)
        .map_or_else(
            || Condition::is_true(READY),
            |failing| Condition { type_: READY.into(), ..failing.clone() },
        );
    vec![ready, compatible, valid, updates]
}

fn compatible(incompatible: Option<&str>) -> Condition {
    match incompatible {
        None => Condition::is_true(words::COMPATIBLE),
        Some(why) => Condition::is_false(words::COMPATIBLE, INFO, words::INCOMPATIBLE, why),
    }
}

/// Returns the condition that lists newer releases. The message is the list, in the format of vSphere with Tanzu.
pub fn updates_condition(type_: &str, updates: &[&Version]) -> Condition {
    if updates.is_empty() {
        return Condition::is_false(type_, INFO, words::ALREADY_UP_TO_DATE, "no newer release can be used");
    }
    let list: Vec<String> =
        updates.iter().map(|version| version.to_string().trim_start_matches('v').to_owned()).collect();
    Condition { message: Some(format!("[{}]", list.join(" "))), ..Condition::is_true(type_) }
}

/// Returns an OSImage's status.
pub fn os_image(image: &OSImage) -> OSImageStatus {
    let condition = if ReleaseImage::of(image).is_none() {
        let message =
            format!("VM Operator does not know an image of type {:?} without a name", image.spec.image.type_);
        Condition::is_false(words::COMPATIBLE, INFO, words::INCOMPATIBLE, message)
    } else {
        match Version::parse(&image.spec.kubernetes_version) {
            Ok(version) => {
                let why = marked(image).or_else(|| resolution::explain_incompatibility(&version));
                compatible(why.as_deref())
            }
            Err(error) => {
                Condition::is_false(words::COMPATIBLE, ERROR, words::CANNOT_PARSE_TKR, error.to_string())
            }
        }
    };
    OSImageStatus { conditions: vec![condition], observed_generation: image.metadata.generation }
}

/// Returns the reason if a label marks the image as incompatible.
fn marked(image: &OSImage) -> Option<String> {
    image.labels().contains_key(label::INCOMPATIBLE).then(|| {
        let reason = image.annotations().get(annotation::INCOMPATIBLE_REASON);
        let mark = label::INCOMPATIBLE;
        reason.map_or_else(
            || format!("the OSImage is labelled {mark}"),
            |reason| format!("the OSImage is labelled {mark}: {reason}"),
        )
    })
}
