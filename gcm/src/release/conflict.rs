//! Images of one release that say different things of it.
//!
//! Nobody can know which of them is right, and what a release says reaches every control plane that runs it. So what
//! it says once stays, and an administrator decides.

use api::gcm::TanzuKubernetesRelease;
use api::gcm::release::{KubernetesSpec, LocalReference};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::image::CarriedRelease;

/// How many differences a message lists.
const LISTED: usize = 3;
/// How much of a value a message shows.
const SHOWN: usize = 120;

/// What a release says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseFacts {
    /// The versions of its parts.
    pub kubernetes: KubernetesSpec,
    /// The packages clusters are made with.
    pub packages: Vec<LocalReference>,
}

impl ReleaseFacts {
    /// What an image says of its release.
    pub fn of(carried: &CarriedRelease) -> Self {
        Self { kubernetes: carried.kubernetes.clone(), packages: carried.packages.clone() }
    }
}

/// What the release says already; one that never had an image says nothing.
pub fn established(live: Option<&TanzuKubernetesRelease>) -> Option<ReleaseFacts> {
    let spec = &live.filter(|live| !live.spec.os_images.is_empty())?.spec;
    Some(ReleaseFacts { kubernetes: spec.kubernetes.clone(), packages: spec.bootstrap_packages.clone() })
}

/// What all images say; nothing if they disagree.
pub fn agreed(images: &[(String, CarriedRelease)]) -> Option<ReleaseFacts> {
    let mut facts = images.iter().map(|(_, carried)| ReleaseFacts::of(carried));
    let first = facts.next()?;
    facts.all(|other| other == first).then_some(first)
}

/// Which images disagree about the release, in what, and what to do; nothing if they agree.
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

/// Where the facts differ, with both values.
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
