//! Finds the releases that manifests name and that the simulated library lacks, so that they can be added.

use std::collections::BTreeSet;

use serde_json::Value;
use sim::further_release::{FurtherRelease, is_of};
use sim::releases::NODE_IMAGES;

use crate::kube::manifest::is_cluster;

/// Returns the releases to add for the clusters in `documents`, each with the string by which a manifest names it.
/// Skips strings that can't become a simulated release. The API server refuses their clusters and lists the existing
/// releases.
pub fn missing(documents: &[Value], given: &[FurtherRelease]) -> Vec<(String, FurtherRelease)> {
    let mut added: Vec<(String, FurtherRelease)> = Vec::new();
    let named: BTreeSet<String> =
        documents.iter().filter(|document| is_cluster(document)).flat_map(named_releases).collect();
    // Longest first, because a prefix may match a release that a full version adds.
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by_key(|text| std::cmp::Reverse(text.len()));
    for text in named {
        let further = given.iter().chain(added.iter().map(|(_, release)| release));
        let mut all =
            NODE_IMAGES.iter().map(|image| image.version).chain(further.map(FurtherRelease::version));
        if !all.any(|version| is_of(version, &text))
            && let Ok(release) = text.parse()
        {
            added.push((text, release));
        }
    }
    added
}

/// Returns the strings with which a cluster in any API version names releases.
fn named_releases(cluster: &Value) -> Vec<String> {
    let (spec, topology) = (&cluster["spec"], &cluster["spec"]["topology"]);
    let pools = topology["nodePools"].as_array().cloned().unwrap_or_default();
    let references = std::iter::once(&topology["controlPlane"]).chain(&pools);
    let mut all: Vec<_> = references.map(|part| part["tkr"]["reference"]["name"].clone()).collect();
    // The full version takes precedence over the hint.
    let distribution = &spec["distribution"];
    let whole = distribution["fullVersion"].as_str().filter(|text| !text.is_empty());
    all.push(whole.map_or_else(|| distribution["version"].clone(), Value::from));
    all.iter()
        .filter_map(Value::as_str)
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::manifest::documents;

    fn of(spec: &str) -> Vec<String> {
        let text = format!(
            "apiVersion: run.tanzu.vmware.com/v1alpha3\nkind: TanzuKubernetesCluster\nmetadata: {{name: c}}\nspec: {spec}\n"
        );
        let missing = missing(&documents(&text).unwrap(), &["v1.30.9+vmware.1-tkg.1".parse().unwrap()]);
        missing.into_iter().map(|(_, release)| release.version().to_owned()).collect()
    }

    #[test]
    fn what_a_manifest_names_and_nobody_has_is_added() {
        for (spec, added) in [
            ("{distribution: {version: v1.23}}", &[][..]),
            ("{distribution: {version: v1.24}}", &["v1.24.0+vmware.1-tkg.1"][..]),
            ("{distribution: {version: v1.18.15}}", &[]),
            (
                "{distribution: {fullVersion: v1.29.4+vmware.3-tkg.1, version: v1.29}}",
                &["v1.29.4+vmware.3-tkg.1"],
            ),
            ("{distribution: {fullVersion: null, version: ''}}", &[]),
            (
                "{topology: {controlPlane: {tkr: {reference: {name: v1.28.8---vmware.1-fips.1-tkg.2}}}, nodePools: [{tkr: {reference: {name: v1.28}}}]}}",
                &["v1.28.8+vmware.1-fips.1-tkg.2"],
            ),
            ("{topology: {controlPlane: {tkr: {reference: {name: v1.30.9}}}}}", &[]),
            ("{topology: {controlPlane: {tkr: {reference: {name: newest}}}}}", &[]),
        ] {
            assert_eq!(of(spec), added, "{spec}");
        }
    }
}
