//! Checks those fields of a Cluster API Cluster on which its creation depends. Cluster API checks the other fields when
//! the Cluster is applied.

use std::collections::BTreeSet;

use gcm::release::version::Version;
use ipnet::IpNet;
use serde_json::Value;

use super::finding::Finding;
use super::tree::YamlNode;

/// The API group for Clusters.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The API versions that the supported Cluster API release serves.
const VERSIONS: [&str; 2] = ["v1beta1", "v1beta2"];

/// Returns the findings about a Cluster in this API version.
pub fn check_cluster(document: &YamlNode, version: &str) -> Vec<Finding> {
    let object = document.to_json();
    let error = |field: &str, reason: String, remedy: &str| {
        Finding::error(document.find(field).0, field, reason, remedy)
    };
    if !VERSIONS.contains(&version) {
        let remedy = format!("Use {GROUP}/ with one of: {}", VERSIONS.join(", "));
        return vec![error("apiVersion", "Cluster does not have this version".to_owned(), &remedy)];
    }
    let spec = &object["spec"];
    let mut findings = check_network(&spec["clusterNetwork"], &error);
    if spec["topology"].is_null() {
        if spec["infrastructureRef"].is_null() && spec["controlPlaneRef"].is_null() {
            let remedy = "Set spec.topology, or refer to an infrastructure and a control plane";
            findings.push(error(
                "spec.topology",
                "nothing says what the cluster consists of".to_owned(),
                remedy,
            ));
        }
        return findings;
    }
    findings.extend(check_topology(&spec["topology"], version, &error));
    findings
}

type MakeError<'a> = &'a dyn Fn(&str, String, &str) -> Finding;

fn check_topology(topology: &Value, version: &str, error: MakeError<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let class = if version == "v1beta1" { "class" } else { "classRef" };
    let class_name = if class == "class" { &topology["class"] } else { &topology["classRef"]["name"] };
    if class_name.as_str().is_none_or(str::is_empty) {
        let field = format!("spec.topology.{class}");
        findings.push(error(&field, "it is missing".to_owned(), "Name the ClusterClass of the cluster"));
    }
    let release = topology["version"].as_str().unwrap_or_default();
    // A release name contains `---` instead of `+`. Cluster API accepts such a name as a prerelease version.
    if !release.starts_with('v') || Version::parse(release).is_err() {
        let reason = format!("{release:?} is not a complete version");
        findings.push(error(
            "spec.topology.version",
            reason,
            "Write a version such as v1.35.1+vmware.1-vkr.1",
        ));
    }
    if topology["controlPlane"]["replicas"].as_i64().is_some_and(|count| count % 2 == 0) {
        let reason = "a control plane with etcd needs an odd number of nodes".to_owned();
        findings.push(error("spec.topology.controlPlane.replicas", reason, "Use 1, 3 or 5"));
    }
    let mut names = BTreeSet::new();
    let pools = topology["workers"]["machineDeployments"].as_array();
    for (at, pool) in pools.into_iter().flatten().enumerate() {
        let place = format!("spec.topology.workers.machineDeployments[{at}]");
        for field in
            ["name", "class"].into_iter().filter(|field| pool[*field].as_str().is_none_or(str::is_empty))
        {
            let remedy = "A machineDeployment has a name and a class of the ClusterClass";
            findings.push(error(&format!("{place}.{field}"), "it is missing".to_owned(), remedy));
        }
        let name = pool["name"].as_str().unwrap_or_default();
        if !name.is_empty() && !names.insert(name) {
            let reason = format!("several machineDeployments have the name {name:?}");
            findings.push(error(&format!("{place}.name"), reason, "Give each another name"));
        }
    }
    findings
}

fn check_network(network: &Value, error: MakeError<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut ranges: Vec<(String, IpNet)> = Vec::new();
    for part in ["services", "pods"] {
        for (at, block) in network[part]["cidrBlocks"].as_array().into_iter().flatten().enumerate() {
            let field = format!("spec.clusterNetwork.{part}.cidrBlocks[{at}]");
            let Some(range) = block.as_str().and_then(|text| text.parse::<IpNet>().ok()) else {
                findings.push(error(
                    &field,
                    format!("{block} is not an address range"),
                    "Write a CIDR such as 10.96.0.0/12",
                ));
                continue;
            };
            let meets = |other: &IpNet| other.contains(&range.network()) || range.contains(&other.network());
            if let Some((other, _)) = ranges.iter().find(|(_, known)| meets(known)) {
                findings.push(error(
                    &field,
                    format!("{range} overlaps with {other}"),
                    "Use ranges that do not overlap",
                ));
            }
            ranges.push((field, range));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lint;

    const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: shop, namespace: shop}
spec:
  clusterNetwork:
    services: {cidrBlocks: [10.96.0.0/12]}
    pods: {cidrBlocks: [10.244.0.0/16]}
  topology:
    class: builtin
    version: v1.35.1---vmware.1-vkr.1
    controlPlane: {replicas: 1}
    workers:
      machineDeployments:
      - {class: node-pool, name: np-1, replicas: 1}
";

    #[test]
    fn a_cluster_of_cluster_api_is_checked() {
        let report = lint(CLUSTER, "f");
        assert_eq!((report.checked, report.findings.len()), (1, 0), "{report}");
        for (from, to, words) in [
            ("v1beta1", "v1alpha4", "Cluster does not have this version"),
            ("class: builtin", "other: x", "spec.topology.class: it is missing"),
            ("v1.35.1---vmware.1-vkr.1", "v1.35", "is not a complete version"),
            ("replicas: 1}\n    workers", "replicas: 2}\n    workers", "odd number of nodes"),
            ("name: np-1, ", "", "machineDeployments[0].name: it is missing"),
            ("10.244.0.0/16", "10.100.0.0/16", "overlaps with spec.clusterNetwork.services.cidrBlocks[0]"),
            ("10.244.0.0/16", "10.244.0.0", "is not an address range"),
            ("  topology:", "  other:", "nothing says what the cluster consists of"),
        ] {
            assert!(CLUSTER.contains(from), "{from}");
            let report = lint(&CLUSTER.replacen(from, to, 1), "f").to_string();
            assert!(report.contains(words), "{to}: {report}");
        }
    }
}
