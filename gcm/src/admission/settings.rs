//! Validates the proxy, trusted certificate authorities (CAs) and storage settings.

use std::collections::BTreeSet;

use api::gcm::TanzuKubernetesClusterSpec;
use jiff::Timestamp;

use super::authorities;
use super::denial::FieldDenial;
use super::nodes::offered;
use super::proxy;
use crate::spec::network::network_settings;
use crate::sync::storage_classes::first_edition;

/// Returns the denials for the proxy and the trusted CAs in `spec`, given the previous spec.
pub(super) fn denials(
    spec: &TanzuKubernetesClusterSpec,
    old: Option<&TanzuKubernetesClusterSpec>,
) -> Vec<FieldDenial> {
    let Some(network) = network_settings(spec) else { return Vec::new() };
    let before = old.and_then(network_settings);
    let mut denials = Vec::new();
    let proxied = before.and_then(|before| before.proxy.as_ref());
    denials.extend(network.proxy.iter().flat_map(|proxy| proxy::denials(proxy, proxied)));
    let trusted = before.and_then(|before| before.trust.as_ref());
    denials.extend(network.trust.iter().flat_map(|trust| authorities::denials(trust, trusted)));
    denials
}

/// Returns true if the namespace's class `class` appears in a workload cluster as the class `name`: under its own name, or as its
/// late-binding edition.
fn is_edition(name: &str, class: &str) -> bool {
    class == name || class == first_edition(name)
}

/// Returns warnings about storage classes in the cluster's settings that aren't assigned to the namespace.
pub fn unassigned(
    spec: &TanzuKubernetesClusterSpec,
    namespace: &str,
    assigned: &BTreeSet<String>,
) -> Vec<String> {
    let storage = spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    let classes = storage.and_then(|storage| storage.classes.as_deref()).unwrap_or_default();
    let default = storage.and_then(|storage| storage.default_class.as_deref());
    let text = |field: String, class: &str| {
        format!(
            "{field}: StorageClass {class:?} is not assigned to namespace {namespace:?}; the cluster gets it when it is. {}",
            offered(assigned)
        )
    };
    let missing =
        classes.iter().enumerate().filter(|(_, class)| !class.is_empty() && !assigned.contains(*class));
    let default =
        default.filter(|name| !name.is_empty() && !assigned.iter().any(|class| is_edition(name, class)));
    missing
        .map(|(at, class)| text(format!("spec.settings.storage.classes[{at}]"), class))
        .chain(default.map(|class| text("spec.settings.storage.defaultClass".to_owned(), class)))
        .collect()
}

/// Returns warnings about trusted CAs that aren't valid at the time `now`, and about the default storage class.
pub(super) fn warnings(spec: &TanzuKubernetesClusterSpec, now: Timestamp) -> Vec<String> {
    let trust = network_settings(spec).and_then(|network| network.trust.as_ref());
    let mut warnings: Vec<_> = trust.iter().flat_map(|trust| authorities::warnings(trust, now)).collect();
    warnings.extend(default_class_warning(spec));
    warnings
}

fn default_class_warning(spec: &TanzuKubernetesClusterSpec) -> Option<String> {
    let storage = spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    let default =
        storage.and_then(|storage| storage.default_class.as_deref()).filter(|class| !class.is_empty());
    let classes = storage.and_then(|storage| storage.classes.as_deref());
    match (default, classes) {
        (Some(default), Some(classes))
            if !classes.is_empty() && !classes.iter().any(|class| is_edition(default, class)) =>
        {
            Some(format!(
                "spec.settings.storage.defaultClass: {default:?} is not among spec.settings.storage.classes"
            ))
        }
        _ => None,
    }
}
