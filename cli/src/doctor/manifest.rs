//! Whether manifests will do: their fields, what the API server says of them, and their address ranges.

use std::net::IpAddr;
use std::path::PathBuf;

use api::vmop::VirtualMachine;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use kit::diagnosis::{Check, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;

use crate::apply::dry_run;
use crate::lint::finding::FindingSeverity;
use crate::lint::lint;

const FIELDS: Check = Check::new("LC1001", "the manifest's fields are known and in their place");
const ACCEPTED: Check = Check::new("LC1002", "the API server accepts the manifest");
const RANGES: Check = Check::new("LC1003", "pods and services overlap with no address in use");

/// The checks of this file.
pub const ALL: &[Check] = &[FIELDS, ACCEPTED, RANGES];

/// Checks each file; without one, nothing.
pub async fn check(client: &Client, manifests: &[(PathBuf, String)]) -> Vec<Diagnosis> {
    if manifests.is_empty() {
        return ALL.iter().map(|check| check.skipped("no manifest: give one by -f")).collect();
    }
    let used = addresses(client).await;
    let mut found = Vec::new();
    for (path, text) in manifests {
        let file = path.display().to_string();
        found.push(judge_fields(&file, text));
        for object in objects(text) {
            found.push(accepted(client, &file, &object).await);
            found.extend(judge_ranges(&object, &used));
        }
    }
    found
}

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple::<Value>(text)
        .unwrap_or_default()
        .into_iter()
        .filter(|value| !value.is_null())
        .collect()
}

fn label(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

fn judge_fields(file: &str, text: &str) -> Diagnosis {
    let report = lint(text, file);
    let worst = report.findings.iter().min_by_key(|finding| finding.severity);
    match worst {
        Some(finding) if finding.severity != FindingSeverity::Note => {
            let found = format!("{file}:{}: {}: {}", finding.line, finding.field, finding.reason);
            let remedy = match finding.remedy.as_str() {
                "" => format!("Run layercake lint {file}"),
                remedy => format!("{remedy}. layercake lint {file} has all findings"),
            };
            if finding.severity == FindingSeverity::Error {
                FIELDS.error(found, remedy)
            } else {
                FIELDS.warning(found, remedy)
            }
        }
        _ => FIELDS.ok(format!("{file}: {} object(s)", report.checked)),
    }
}

/// A dry run asks admission as an apply would: release, VM classes, storage classes, and what must not change.
async fn accepted(client: &Client, file: &str, object: &Value) -> Diagnosis {
    let named = label(object);
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    if !namespace.is_empty()
        && let Ok(None) = Api::<Namespace>::all(client.clone()).get_opt(namespace).await
    {
        let remedy =
            format!("Create namespace {namespace}, with its folder, resource pool, classes and quota");
        return ACCEPTED.error(format!("{named}: namespace {namespace} does not exist"), remedy);
    }
    match dry_run(client, object).await {
        Ok(()) => ACCEPTED.ok(named),
        Err(error) => ACCEPTED
            .error(format!("{named}: {error:#}"), format!("Correct {file}, or what the message names")),
    }
}

/// Addresses that machines of this installation have: its nodes, its VMs, and its own services.
async fn addresses(client: &Client) -> Vec<(IpAddr, String)> {
    let all = ListParams::default();
    let nodes = Api::<Node>::all(client.clone()).list(&all).await.map(|list| list.items).unwrap_or_default();
    let vms = Api::<VirtualMachine>::all(client.clone())
        .list(&all)
        .await
        .map(|list| list.items)
        .unwrap_or_default();
    let own =
        Api::<Service>::namespaced(client.clone(), "default").get_opt("kubernetes").await.ok().flatten();
    let mut used = Vec::new();
    for node in nodes {
        let name = format!("Node {}", node.metadata.name.unwrap_or_default());
        let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
        used.extend(
            addresses.iter().filter_map(|address| Some((address.address.parse().ok()?, name.clone()))),
        );
    }
    for vm in vms {
        let address = vm.status.as_ref().and_then(|status| status.vm_ip.as_deref()?.parse().ok());
        let name = format!("VirtualMachine {}", vm.metadata.name.unwrap_or_default());
        used.extend(address.map(|address| (address, name)));
    }
    let own = own.and_then(|service| service.spec?.cluster_ip?.parse().ok());
    used.extend(own.map(|address| (address, "Service default/kubernetes of this cluster".to_owned())));
    used
}

/// The ranges of a TanzuKubernetesCluster; its nodes reach management and other nodes, so neither may lie in them.
fn judge_ranges(object: &Value, used: &[(IpAddr, String)]) -> Option<Diagnosis> {
    if object["kind"] != "TanzuKubernetesCluster" {
        return None;
    }
    let named = label(object);
    for of in ["pods", "services"] {
        let blocks =
            object.pointer(&format!("/spec/settings/network/{of}/cidrBlocks")).and_then(Value::as_array);
        for block in blocks.into_iter().flatten().filter_map(|block| block.as_str()?.parse::<IpNet>().ok()) {
            if let Some((address, who)) = used.iter().find(|(address, _)| block.contains(address)) {
                let found = format!("{named}: {of} {block} contains {address}, the address of {who}");
                return Some(
                    RANGES.error(found, format!("Give {of} a range that nothing in your network uses")),
                );
            }
        }
    }
    Some(RANGES.ok(named))
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::Outcome;

    use super::*;

    #[test]
    fn ranges_must_not_hold_addresses_in_use() {
        let cluster = |pods: &str| {
            serde_json::json!({
                "kind": "TanzuKubernetesCluster", "metadata": {"name": "c", "namespace": "n"},
                "spec": {"settings": {"network": {"pods": {"cidrBlocks": [pods]}}}},
            })
        };
        let used = [("10.76.1.1".parse().unwrap(), "VirtualMachine node".to_owned())];
        let bad = judge_ranges(&cluster("10.76.0.0/16"), &used).unwrap();
        assert_eq!(bad.outcome, Outcome::Error);
        assert!(
            bad.found.contains("10.76.1.1") && bad.found.contains("VirtualMachine node"),
            "{}",
            bad.found
        );
        assert_eq!(judge_ranges(&cluster("192.168.0.0/16"), &used).unwrap().outcome, Outcome::Ok);
        assert_eq!(judge_ranges(&serde_json::json!({"kind": "ConfigMap"}), &used), None);
    }

    #[test]
    fn the_worst_finding_of_a_manifest_is_reported() {
        let good = include_str!("../../../examples/test-cluster.yaml");
        assert_eq!(judge_fields("f", good).outcome, Outcome::Ok);
        let bad = good.replacen("topology:", "topologie:", 1);
        assert_eq!(judge_fields("f", &bad).outcome, Outcome::Error);
    }
}
