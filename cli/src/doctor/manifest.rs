//! Whether manifests will do: their fields, what the API server says of them, and their address ranges.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use api::vmop::{VirtualMachine, VirtualMachineClassBinding};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use kit::diagnosis::{Check, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::apply::dry_run;
use crate::lint::finding::FindingSeverity;
use crate::lint::lint;

const FIELDS: Check = Check::new("LC1001", "the manifest's fields exist and are in the right place");
const ACCEPTED: Check = Check::new("LC1002", "the API server accepts the manifest");
const RANGES: Check =
    Check::new("LC1003", "pods, services and endpoint do not overlap with addresses in use");
const CLASSES: Check = Check::new("LC1004", "the namespace may use the VM classes");

/// The checks of this file.
pub const ALL: &[Check] = &[FIELDS, ACCEPTED, RANGES, CLASSES];

/// Checks each file; without one, nothing.
pub async fn check(client: &Client, manifests: &[(PathBuf, String)]) -> Vec<Diagnosis> {
    if manifests.is_empty() {
        return ALL.iter().map(|check| check.skipped("no manifest: pass one with -f")).collect();
    }
    let used = RANGES.read("The addresses of nodes, machines and services", addresses(client).await);
    let bound = CLASSES.read("VirtualMachineClassBindings", bound_classes(client).await);
    let unread = [used.as_ref().err(), bound.as_ref().err()];
    let mut found: Vec<_> = unread.into_iter().flatten().cloned().collect();
    for (path, text) in manifests {
        let file = path.display().to_string();
        found.push(judge_fields(&file, text));
        for object in objects(text) {
            found.push(accepted(client, &file, &object).await);
            found.extend(used.iter().filter_map(|used| judge_ranges(&object, used)));
            found.extend(bound.iter().filter_map(|bound| judge_classes(&object, bound)));
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
        Err(error) => ACCEPTED.error(
            format!("{named}: {error:#}"),
            format!("Correct {file}, or the object that the message names"),
        ),
    }
}

/// Addresses that machines of this installation have: its nodes, its VMs, and its own services.
async fn addresses(client: &Client) -> kube::Result<Vec<(IpAddr, String)>> {
    let all = ListParams::default();
    let nodes = Api::<Node>::all(client.clone()).list(&all).await?.items;
    let vms = Api::<VirtualMachine>::all(client.clone()).list(&all).await?.items;
    let own = Api::<Service>::namespaced(client.clone(), "default").get_opt("kubernetes").await?;
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
    Ok(used)
}

/// Which namespace may use which VM class.
async fn bound_classes(client: &Client) -> kube::Result<Vec<(String, String)>> {
    let bindings =
        Api::<VirtualMachineClassBinding>::all(client.clone()).list(&ListParams::default()).await?;
    let bindings = bindings.items.into_iter();
    Ok(bindings
        .map(|binding| (binding.namespace().unwrap_or_default(), binding.spec.class_ref.name))
        .collect())
}

/// The ranges of a TanzuKubernetesCluster; its nodes reach management and other nodes, so neither may lie in them.
fn judge_ranges(object: &Value, used: &[(IpAddr, String)]) -> Option<Diagnosis> {
    let named = label(object);
    if let Some(endpoint) = object.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str) {
        let taken = used.iter().find(|(address, _)| endpoint.parse() == Ok(*address));
        return Some(match taken {
            Some((_, who)) => RANGES.error(
                format!("{named}: the control plane's endpoint {endpoint} is the address of {who}"),
                "Give the control plane an address that nothing else uses",
            ),
            None => RANGES.ok(named),
        });
    }
    if object["kind"] != "TanzuKubernetesCluster" {
        return None;
    }
    for of in ["pods", "services"] {
        let blocks =
            object.pointer(&format!("/spec/settings/network/{of}/cidrBlocks")).and_then(Value::as_array);
        for block in blocks.into_iter().flatten().filter_map(|block| block.as_str()?.parse::<IpNet>().ok()) {
            if let Some((address, who)) = used.iter().find(|(address, _)| block.contains(address)) {
                let found = format!("{named}: {of} {block} contains {address}, the address of {who}");
                return Some(
                    RANGES.error(found, format!("Use a range for {of} that nothing in your network uses")),
                );
            }
        }
    }
    Some(RANGES.ok(named))
}

/// The VM classes of a TanzuKubernetesCluster's nodes; those that its namespace may not use are waited for.
fn judge_classes(object: &Value, bound: &[(String, String)]) -> Option<Diagnosis> {
    if object["kind"] != "TanzuKubernetesCluster" {
        return None;
    }
    let mut classes = BTreeSet::new();
    collect_classes(&object["spec"]["topology"], &mut classes);
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let may_use = |class: &str| bound.iter().any(|(own, name)| own == namespace && name == class);
    let missing: Vec<_> = classes.into_iter().filter(|class| !may_use(class)).collect();
    let named = label(object);
    Some(if missing.is_empty() {
        CLASSES.ok(named)
    } else {
        let found = format!("{named}: namespace {namespace} cannot use the VM class {}", missing.join(", "));
        CLASSES.error(found, format!("Create a VirtualMachineClassBinding for it in {namespace}"))
    })
}

/// The classes that a topology names: `class` in v1alpha1, `vmClass` later.
fn collect_classes<'a>(topology: &'a Value, classes: &mut BTreeSet<&'a str>) {
    match topology {
        Value::Object(members) => {
            for (member, value) in members {
                match value {
                    Value::String(class) if member == "class" || member == "vmClass" => {
                        classes.insert(class);
                    }
                    value => collect_classes(value, classes),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_classes(item, classes)),
        _ => {}
    }
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
        let endpoint = serde_json::json!({
            "kind": "Cluster", "metadata": {"name": "c", "namespace": "n"},
            "spec": {"controlPlaneEndpoint": {"host": "10.76.1.1", "port": 6443}},
        });
        assert_eq!(judge_ranges(&endpoint, &used).unwrap().outcome, Outcome::Error);
    }

    #[test]
    fn classes_must_be_bound_in_the_namespace() {
        let cluster = serde_json::json!({
            "kind": "TanzuKubernetesCluster", "metadata": {"name": "c", "namespace": "n"},
            "spec": {"topology": {
                "controlPlane": {"vmClass": "small"}, "nodePools": [{"name": "a", "vmClass": "large"}],
            }},
        });
        let bound = |classes: &[&str]| -> Vec<_> {
            classes.iter().map(|class| ("n".to_owned(), (*class).to_owned())).collect()
        };
        let all = judge_classes(&cluster, &bound(&["small", "large"])).unwrap();
        assert_eq!(all.outcome, Outcome::Ok);
        let one = judge_classes(&cluster, &bound(&["small"])).unwrap();
        assert_eq!(one.outcome, Outcome::Error);
        assert!(one.found.contains("large") && !one.found.contains("small"), "{}", one.found);
    }

    #[test]
    fn the_worst_finding_of_a_manifest_is_reported() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
        let good = std::fs::read_to_string(path).unwrap();
        assert_eq!(judge_fields("f", &good).outcome, Outcome::Ok);
        let bad = good.replacen("topology:", "topologie:", 1);
        assert_eq!(judge_fields("f", &bad).outcome, Outcome::Error);
    }
}
