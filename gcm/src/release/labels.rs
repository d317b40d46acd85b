//! Labels on the OSImages and TanzuKubernetesReleases that gcm creates.

use std::collections::BTreeMap;

use api::gcm::OSImageSpec;
use kube::{Resource, ResourceExt};

/// The key and value of the label on releases and OSImages that gcm manages. gcm doesn't change objects without this label.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "gcm");

/// Returns true if gcm manages the object.
pub fn is_ours<K: Resource>(object: &K) -> bool {
    object.labels().get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1)
}

/// Returns the OSImage labels that selectors can match. Values that are empty or longer than 63 bytes are left out.
pub fn os_labels(spec: &OSImageSpec) -> BTreeMap<String, String> {
    let os = &spec.os;
    let image = &spec.image;
    let mut labels: BTreeMap<String, String> = [
        ("os-type", &os.type_),
        ("os-name", &os.name),
        ("os-version", &os.version),
        ("os-arch", &os.arch),
        ("image-type", &image.type_),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.clone()))
    .collect();
    for (key, value) in &image.r#ref {
        if let Some(value) = value.as_str() {
            labels.insert(format!("{}-{key}", image.type_), value.to_owned());
        }
    }
    labels.retain(|_, value| !value.is_empty() && value.len() <= 63);
    labels
}
