//! Detects images that describe the same release differently.
//!
//! gcm can't know which image is right, and the facts about a release reach every control plane that runs it. A release
//! therefore keeps its first facts, and an administrator decides.

use api::gcm::TanzuKubernetesRelease;
use api::gcm::release::{KubernetesSpec, LocalReference};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::image::CarriedRelease;

/// The maximum number of differences in a message.
const LISTED: usize = 3;
/// The maximum length of a value in a message, in characters.
const SHOWN: usize = 120;

/// The facts about a release that all its images must agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseFacts {
    /// The Kubernetes and component versions.
    pub kubernetes: KubernetesSpec,
    /// The packages in the release's `spec.bootstrapPackages`.
    pub packages: Vec<LocalReference>,
}

impl ReleaseFacts {
    /// Returns the facts that an image contains.
    pub fn of(carried: &CarriedRelease) -> Self {
        Self { kubernetes: carried.kubernetes.clone(), packages: carried.packages.clone() }
    }
}

/// Returns the established facts of a release, or `None` if the release has never had an image.
pub fn established(live: Option<&TanzuKubernetesRelease>) -> Option<ReleaseFacts> {
    let spec = &live.filter(|live| !live.spec.os_images.is_empty())?.spec;
    Some(ReleaseFacts { kubernetes: spec.kubernetes.clone(), packages: spec.bootstrap_packages.clone() })
}

/// Returns the facts that all images agree on, or `None` if they disagree.
pub fn agreed(images: &[(String, CarriedRelease)]) -> Option<ReleaseFacts> {
    let mut facts = images.iter().map(|(_, carried)| ReleaseFacts::of(carried));
    let first = facts.next()?;
    facts.all(|other| other == first).then_some(first)
}

/// Describes a disagreement between images, and the remedy. Returns `None` if all agree.
pub fn explain(images: &[(String, CarriedRelease)], live: Option<&TanzuKubernetesRelease>) -> Option<String> {
    let mut images: Vec<_> =
        images.iter().map(|(name, carried)| (name.as_str(), ReleaseFacts::of(carried))).collect();
    images.sort_by_key(|(name, _)| *name);
    let release = live.map(ResourceExt::name_any);
    let (known, facts) = match established(live) {
        Some(facts) => {
            let own = images.iter().find(|(_, of)| *of == facts).map(|(name, _)| image_named(name));
            (own.unwrap_or_else(|| "the TanzuKubernetesRelease".to_owned()), facts)
        }
        None => images.first().map(|(name, facts)| (image_named(name), facts.clone()))?,
    };
    let (other, others) = images.iter().find(|(_, of)| *of != facts)?;
    let differences = differences(&facts, others);
    let more = differences.len().saturating_sub(LISTED);
    let listed: Vec<_> = differences
        .into_iter()
        .take(LISTED)
        .map(|(path, one, two)| format!("{path} is {one} in {known} and {two} in {}", image_named(other)))
        .collect();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let take_over = release.map_or_else(String::new, |name| {
        format!(", or delete TanzuKubernetesRelease {name} to have it recreated from the remaining images")
    });
    Some(format!(
        "images disagree about the release: {}{more}. Clusters that run the release do not change, and no new cluster can use it. Remove the wrong image from its library{take_over}",
        listed.join("; ")
    ))
}

fn image_named(name: &str) -> String {
    format!("VirtualMachineImage {name}")
}

/// Returns the paths at which the facts differ, as triples of path, value in `one` and value in `two`.
fn differences(one: &ReleaseFacts, two: &ReleaseFacts) -> Vec<(String, String, String)> {
    let value =
        |facts: &ReleaseFacts| json!({ "kubernetes": facts.kubernetes, "bootstrapPackages": facts.packages });
    let mut found = Vec::new();
    compare("", &value(one), &value(two), &mut found);
    found
}

fn compare(path: &str, one: &Value, two: &Value, found: &mut Vec<(String, String, String)>) {
    match (one, two) {
        (Value::Object(ones), Value::Object(twos)) => {
            let keys: std::collections::BTreeSet<_> = ones.keys().chain(twos.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, &one[key], &two[key], found);
            }
        }
        _ if one == two => {}
        _ => found.push((path.to_owned(), shown(one), shown(two))),
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "not set".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
