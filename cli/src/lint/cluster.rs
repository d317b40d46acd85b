//! Checks a TanzuKubernetesCluster against the admission rules, and against rules that only matter before the cluster
//! exists.

use api::gcm::{HUB, TanzuKubernetesCluster, convert};
use api::names::annotation;
use gcm::admission;
use gcm::admission::denial::FieldDenial;
use gcm::release::resolution::{self, AvailableRelease};
use gcm::release::version::Version;
use gcm::spec::release::release_request;
use ipnet::IpNet;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::finding::Finding;
use super::tree::YamlNode;

/// Returns the findings about a cluster. Returns an empty list if the cluster's fields can't be parsed. `version` is
/// the manifest's API version, such as `v1alpha3`.
pub fn check_cluster(document: &YamlNode, version: &str) -> Vec<Finding> {
    let Some(cluster) = read_as_hub(document) else { return Vec::new() };
    let (available, mut findings) = name_releases(document, &cluster, version);
    let of_version = |denial: &FieldDenial| {
        denial.field.starts_with("spec.distribution")
            || denial.field.ends_with("controlPlane.tkr.reference.name")
    };
    // Without a management cluster, the labels that queries select aren't known.
    let mut denials = admission::queries::denials(&cluster, None);
    let cluster = without_queries(cluster);
    denials.extend(admission::validate(&cluster, None, &available));
    // Without releases to compare with, admission denies every version.
    let denials = denials.iter().filter(|denial| !available.is_empty() || !of_version(denial));
    findings.extend(denials.map(|denial| report_denial(document, version, denial)));
    let mut warnings = admission::warnings(&cluster, &available, Timestamp::now());
    warnings.extend(admission::queries::unsupported(&cluster, None));
    findings.extend(warnings.iter().map(|warning| report_warning(document, version, warning)));
    findings.extend(find_host_bits(document, &cluster));
    findings
}

/// Converts the cluster to the stored version, with defaults for missing fields. Returns `None` if it can't be parsed.
fn read_as_hub(document: &YamlNode) -> Option<TanzuKubernetesCluster> {
    let mut object = document.to_json();
    object["metadata"] = read_metadata(&object["metadata"]);
    object.as_object_mut()?.remove("status");
    serde_json::from_value(convert(&object, HUB).ok()?).ok()
}

/// Returns the parts of the metadata that admission reads. Skips values that aren't strings, because the schema check
/// reports them.
fn read_metadata(metadata: &Value) -> Value {
    let texts = |key: &str| -> Value {
        let entries = metadata[key].as_object().into_iter().flatten();
        entries
            .filter(|(_, value)| value.is_string())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut read = json!({
        "name": metadata["name"].as_str().unwrap_or_default(),
        "labels": texts("labels"), "annotations": texts("annotations"),
    });
    if metadata["namespace"].is_string() {
        read["namespace"] = metadata["namespace"].clone();
    }
    read
}

fn without_queries(mut cluster: TanzuKubernetesCluster) -> TanzuKubernetesCluster {
    for key in [annotation::RESOLVE_TKR, annotation::RESOLVE_OS_IMAGE] {
        cluster.annotations_mut().remove(key);
    }
    cluster
}

fn report_denial(document: &YamlNode, version: &str, denial: &FieldDenial) -> Finding {
    let field = admission::path_in(version, &denial.field);
    let line = document.find(&field).0;
    let remedy = admission::path_in(version, &denial.remedy);
    Finding::error(line, &field, admission::path_in(version, &denial.reason), remedy)
}

fn report_warning(document: &YamlNode, version: &str, warning: &str) -> Finding {
    let warning = admission::path_in(version, warning);
    match warning.split_once(": ") {
        Some((field, reason)) if ["spec.", "metadata."].iter().any(|part| field.starts_with(part)) => {
            Finding::warning(document.find(field).0, field, reason, "")
        }
        _ => Finding::warning(
            document.find(version_field(document)).0,
            version_field(document),
            warning.as_str(),
            "",
        ),
    }
}

/// Returns the first non-empty field that sets the Kubernetes version, or the version hint's path if all are empty.
fn version_field(document: &YamlNode) -> &'static str {
    let fields = [
        "spec.distribution.fullVersion",
        "spec.topology.controlPlane.tkr.reference.name",
        "spec.distribution.version",
    ];
    let written = |path: &&&str| {
        let value = document.to_json();
        let pointer = format!("/{}", path.replace('.', "/"));
        value.pointer(&pointer).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
    };
    fields.iter().find(written).copied().unwrap_or("spec.distribution.version")
}

/// Returns the releases that the manifest names, and findings. The releases count as existing, because they can't be
/// looked up without a cluster. The findings are about strings that can't name a release, and about versions that
/// Cluster API doesn't support.
fn name_releases(
    document: &YamlNode,
    cluster: &TanzuKubernetesCluster,
    version: &str,
) -> (Vec<AvailableRelease>, Vec<Finding>) {
    let request = release_request(cluster);
    let texts = [
        ("spec.distribution.fullVersion", request.full),
        ("spec.topology.controlPlane.tkr.reference.name", request.reference),
        ("spec.distribution.version", request.hint),
    ];
    let (mut available, mut findings) = (Vec::new(), Vec::new());
    let field = version_field(document);
    let line = document.find(field).0;
    for (at, text) in texts.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let Some(release) = complete_version(text) else {
            let at = admission::path_in(version, at);
            let reason = format!("{text:?} is not a version");
            let remedy = "Write a hint such as v1.33, or a full version such as v1.33.1+vmware.1-fips-vkr.2";
            findings.push(Finding::error(document.find(&at).0, &at, reason, remedy));
            continue;
        };
        available.push(AvailableRelease { incompatible: None, ..AvailableRelease::of(release) });
    }
    // Only the management cluster can resolve a query.
    let queried = document.to_json()["metadata"]["annotations"][annotation::RESOLVE_TKR].is_string();
    if available.is_empty() && findings.is_empty() && !queried {
        let remedy = format!("Write a hint such as v{}.{}", newest_supported().0, newest_supported().1);
        findings.push(Finding::error(line, field, "the Kubernetes version is missing", remedy));
    }
    if let Some(reason) =
        available.first().and_then(|candidate| resolution::explain_incompatibility(&candidate.version))
    {
        let (oldest, newest) = (resolution::SUPPORTED.start(), newest_supported());
        let remedy = format!("Use v{}.{} to v{}.{}", oldest.0, oldest.1, newest.0, newest.1);
        findings.push(Finding::error(line, field, reason, remedy));
    }
    if !findings.is_empty() {
        available.clear();
    }
    (available, findings)
}

fn newest_supported() -> (u64, u64) {
    *resolution::SUPPORTED.end()
}

/// Returns a complete version that begins with `text`, such as v1.33.0 for v1.33, or `None` if `text` isn't a version.
fn complete_version(text: &str) -> Option<Version> {
    let text = text.trim();
    [text.to_owned(), format!("{text}.0"), format!("{text}.0.0")]
        .iter()
        .find_map(|text| Version::parse(text).ok())
}

/// Reports ranges with host bits. Such ranges are stored as written, but contain more addresses than their notation
/// suggests.
fn find_host_bits(document: &YamlNode, cluster: &TanzuKubernetesCluster) -> Vec<Finding> {
    let network = cluster.spec.settings.as_ref().and_then(|settings| settings.network.as_ref());
    let Some(network) = network else { return Vec::new() };
    let blocks =
        [("pods", &network.pods), ("services", &network.services)].into_iter().flat_map(|(key, ranges)| {
            let blocks = ranges.iter().flat_map(|ranges| ranges.cidr_blocks.iter().flatten()).enumerate();
            blocks.map(move |(at, text)| (format!("spec.settings.network.{key}.cidrBlocks[{at}]"), text))
        });
    blocks
        .filter_map(|(field, text)| {
            let range: IpNet = text.trim().parse().ok()?;
            let meant = range.trunc();
            let reason = format!("{text} has bits beyond its prefix: it means {meant}");
            (meant != range).then(|| Finding::note(document.find(&field).0, &field, reason))
        })
        .collect()
}
