//! Checks manifests: their fields, their acceptance by the API server, their address ranges, and their classes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::path::PathBuf;

use api::vmop::{VirtualMachine, VirtualMachineClass, VirtualMachineClassBinding};
use gcm::sync::namespace::assigned_classes;
use ipnet::IpNet;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, ResourceQuota, Service};
use kit::api_error::{message, missing_right};
use kit::diagnosis::{Check, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::given::Given;
use crate::kube::apply::{dry_run, key};
use crate::lint::finding::FindingSeverity;
use crate::lint::lint;

const FIELDS: Check = Check::new("LC1001", "the manifest's fields exist and are in the right place");
const ACCEPTED: Check = Check::new("LC1002", "the API server accepts the manifest");
const RANGES: Check =
    Check::new("LC1003", "pods, services and endpoint do not overlap with addresses in use");
const CLASSES: Check = Check::new("LC1004", "the namespace is allowed to use the VM classes");
const STORAGE: Check = Check::new("LC1005", "the namespace is allowed to use the storage classes");

/// The checks in this file.
pub const ALL: &[Check] = &[FIELDS, ACCEPTED, RANGES, CLASSES, STORAGE];

/// Checks each file. Skips all checks without files.
pub async fn check(client: &Client, manifests: &[(PathBuf, String)]) -> Vec<Diagnosis> {
    if manifests.is_empty() {
        return ALL.iter().map(|check| check.skipped("no manifest: pass one with -f")).collect();
    }
    let all: Vec<_> = manifests.iter().flat_map(|(_, text)| objects(text)).collect();
    let given = Given::of(&all);
    let namespaces = all.iter().map(|object| key(object).0).collect();
    let used = Used::read(client, &namespaces).await;
    let mut bound = CLASSES.read("VirtualMachineClassBindings", bound_classes(client, &namespaces).await);
    let existing = existing_classes(client, &given).await;
    let mut assigned = STORAGE.read("ResourceQuotas", assigned_storage(client, &namespaces).await);
    if let Ok(bound) = &mut bound {
        bound.extend_from_slice(&given.classes);
    }
    if let Ok(assigned) = &mut assigned {
        assigned.extend_from_slice(&given.storage);
    }
    let unread = [bound.as_ref().err(), assigned.as_ref().err()];
    let mut found: Vec<_> = unread.into_iter().flatten().cloned().collect();
    for (path, text) in manifests {
        let file = path.display().to_string();
        found.push(judge_fields(&file, text));
        for object in objects(text) {
            found.push(accepted(client, &file, &object, &given).await);
            found.extend(judge_ranges(&object, &used));
            found.extend(bound.iter().filter_map(|bound| judge_classes(&object, bound, existing.as_ref())));
            found.extend(assigned.iter().filter_map(|assigned| judge_storage(&object, assigned)));
        }
    }
    found
}

pub(super) fn objects(text: &str) -> Vec<Value> {
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

/// Sends a dry run, so that admission checks the release, VM classes, storage classes and immutable fields.
async fn accepted(client: &Client, file: &str, object: &Value, given: &Given) -> Diagnosis {
    let named = label(object);
    let namespace = key(object).0;
    if let Ok(None) = Api::<Namespace>::all(client.clone()).get_opt(&namespace).await {
        if given.namespaces.contains(&namespace) {
            let why = format!(
                "{named}: namespace {namespace} is created with it, so the API server cannot check it yet"
            );
            return ACCEPTED.skipped(why);
        }
        let remedy =
            format!("Create namespace {namespace}, with its folder, resource pool, classes and quota");
        return ACCEPTED.error(format!("{named}: namespace {namespace} does not exist"), remedy);
    }
    match dry_run(client, object).await {
        Ok(()) => ACCEPTED.ok(named),
        Err(error) => {
            let error = format!("{error:#}");
            match missing_right(&error) {
                Some(right) => ACCEPTED.skipped(format!("{named}: {right}")),
                None => ACCEPTED.error(
                    format!("{named}: {error}"),
                    format!("Correct {file}, or the object that the message names"),
                ),
            }
        }
    }
}

/// The addresses in use, as far as the user is allowed to read them.
#[derive(Default)]
struct Used {
    /// The addresses with the objects that use them.
    addresses: Vec<(IpAddr, String)>,
    /// The kinds that could not be read, with the reason.
    unread: Vec<String>,
}

impl Used {
    /// Reads the addresses of this cluster's nodes, VMs and API server Service. If the user can't list VMs in all namespaces,
    /// only reads them in `namespaces`.
    async fn read(client: &Client, namespaces: &BTreeSet<String>) -> Self {
        let mut used = Self::default();
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
        for node in used.keep("Nodes", nodes.map(|nodes| nodes.items)) {
            let name = format!("Node {}", node.name_any());
            let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
            let addresses = addresses.iter().filter_map(|address| address.address.parse().ok());
            used.addresses.extend(addresses.map(|address| (address, name.clone())));
        }
        let vms = list_where_allowed::<VirtualMachine>(client, namespaces).await;
        let vms = vms.map(|Allowed { items, missing }| {
            used.unread.extend(missing.map(|right| format!("VirtualMachines of other namespaces: {right}")));
            items
        });
        for vm in used.keep("VirtualMachines", vms) {
            let address = vm.status.as_ref().and_then(|status| status.vm_ip.as_deref()?.parse().ok());
            let name = format!("VirtualMachine {}", vm.name_any());
            used.addresses.extend(address.map(|address| (address, name)));
        }
        let own = Api::<Service>::namespaced(client.clone(), "default").get_opt("kubernetes").await;
        for service in used.keep("Service default/kubernetes", own.map(Vec::from_iter)) {
            let address = service.spec.and_then(|spec| spec.cluster_ip?.parse().ok());
            let name = "Service default/kubernetes of this cluster".to_owned();
            used.addresses.extend(address.map(|address| (address, name)));
        }
        used
    }

    fn keep<T>(&mut self, what: &str, read: kube::Result<Vec<T>>) -> Vec<T> {
        read.unwrap_or_else(|error| {
            let message = message(&error);
            self.unread.push(format!("{what}: {}", missing_right(&message).unwrap_or(&message)));
            Vec::new()
        })
    }

    /// Reports that the object doesn't use any known address. The check counts as skipped if not all addresses are
    /// known.
    fn no_conflict(&self, named: String) -> Diagnosis {
        match self.unread.as_slice() {
            [] => RANGES.ok(named),
            unread => RANGES.skipped(format!(
                "{named}: not all addresses in use are known. {} do not conflict. Not read: {}",
                self.addresses.len(),
                unread.join("; ")
            )),
        }
    }
}

/// The objects that the user is allowed to read.
struct Allowed<K> {
    items: Vec<K>,
    /// The permission that the user lacks for reading all namespaces. `None` if all namespaces were read.
    missing: Option<String>,
}

/// Lists objects in all namespaces, or in the given namespaces if the user lacks permission.
async fn list_where_allowed<K>(client: &Client, namespaces: &BTreeSet<String>) -> kube::Result<Allowed<K>>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    K::DynamicType: Default,
{
    let all = ListParams::default();
    let refused = match Api::<K>::all(client.clone()).list(&all).await {
        Ok(listed) => return Ok(Allowed { items: listed.items, missing: None }),
        Err(error) => error,
    };
    let Some(missing) = missing_right(&message(&refused)).map(str::to_owned) else { return Err(refused) };
    let mut items = Vec::new();
    for namespace in namespaces {
        items.extend(Api::<K>::namespaced(client.clone(), namespace).list(&all).await?);
    }
    Ok(Allowed { items, missing: Some(missing) })
}

/// Returns the VM classes that namespaces may use, as pairs of namespace and class.
async fn bound_classes(
    client: &Client,
    namespaces: &BTreeSet<String>,
) -> kube::Result<Vec<(String, String)>> {
    let bindings =
        list_where_allowed::<VirtualMachineClassBinding>(client, namespaces).await?.items.into_iter();
    Ok(bindings
        .map(|binding| (binding.namespace().unwrap_or_default(), binding.spec.class_ref.name))
        .collect())
}

/// Returns the VM classes that exist or that the checked files create, or `None` if the existing classes can't be read.
async fn existing_classes(client: &Client, given: &Given) -> Option<BTreeSet<String>> {
    let classes = Api::<VirtualMachineClass>::all(client.clone()).list(&ListParams::default()).await.ok()?;
    let names = classes.items.iter().map(ResourceExt::name_any);
    Some(names.chain(given.new_classes.iter().cloned()).collect())
}

/// Returns the storage classes that namespaces may use, as pairs of namespace and class.
async fn assigned_storage(
    client: &Client,
    namespaces: &BTreeSet<String>,
) -> kube::Result<Vec<(String, String)>> {
    let quotas = list_where_allowed::<ResourceQuota>(client, namespaces).await?.items.into_iter();
    let pairs = quotas.flat_map(|quota| {
        let namespace = quota.namespace().unwrap_or_default();
        let hard = quota.spec.and_then(|spec| spec.hard).unwrap_or_default();
        assigned_classes(&hard).into_iter().map(move |class| (namespace.clone(), class))
    });
    Ok(pairs.collect())
}

/// Checks an explicit control plane endpoint, or a TanzuKubernetesCluster's pod and service ranges if it doesn't set an
/// endpoint. The cluster's nodes must reach management nodes and other nodes, so the ranges must not contain addresses
/// in use. Returns `None` for other objects.
fn judge_ranges(object: &Value, used: &Used) -> Option<Diagnosis> {
    let named = label(object);
    let taken = |covers: &dyn Fn(&IpAddr) -> bool| used.addresses.iter().find(|(address, _)| covers(address));
    if let Some(endpoint) = object.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str) {
        return Some(match taken(&|address| endpoint.parse() == Ok(*address)) {
            Some((_, who)) => RANGES.error(
                format!("{named}: the control plane's endpoint {endpoint} is the address of {who}"),
                "Give the control plane an address that nothing else uses",
            ),
            None => used.no_conflict(named),
        });
    }
    if object["kind"] != "TanzuKubernetesCluster" {
        return None;
    }
    for of in ["pods", "services"] {
        let blocks =
            object.pointer(&format!("/spec/settings/network/{of}/cidrBlocks")).and_then(Value::as_array);
        for block in blocks.into_iter().flatten().filter_map(|block| block.as_str()?.parse::<IpNet>().ok()) {
            if let Some((address, who)) = taken(&|address| block.contains(address)) {
                let found = format!("{named}: {of} {block} contains {address}, the address of {who}");
                return Some(
                    RANGES.error(found, format!("Use a range for {of} that nothing in your network uses")),
                );
            }
        }
    }
    Some(used.no_conflict(named))
}

/// Checks that the namespace may use a TanzuKubernetesCluster's VM classes. Otherwise, the cluster would wait for a
/// binding. `existing` contains all VM classes, or is `None` if they can't be read.
fn judge_classes(
    object: &Value,
    bound: &[(String, String)],
    existing: Option<&BTreeSet<String>>,
) -> Option<Diagnosis> {
    if object["kind"] != "TanzuKubernetesCluster" {
        return None;
    }
    let mut classes = BTreeSet::new();
    // `class` in v1alpha1, `vmClass` in later versions.
    collect(&object["spec"]["topology"], &["class", "vmClass"], &mut classes);
    let namespace = key(object).0;
    let may_use = |class: &str| bound.iter().any(|(own, name)| *own == namespace && name == class);
    let missing: Vec<_> = classes.into_iter().filter(|class| !may_use(class)).collect();
    let named = label(object);
    Some(if missing.is_empty() {
        CLASSES.ok(named)
    } else {
        let found = format!("{named}: namespace {namespace} cannot use the VM class {}", missing.join(", "));
        let is_absent = |class: &&&str| existing.is_some_and(|existing| !existing.contains(**class));
        let absent: Vec<_> = missing.iter().filter(is_absent).copied().collect();
        if absent.is_empty() {
            return Some(
                CLASSES.error(found, format!("Create a VirtualMachineClassBinding for it in {namespace}")),
            );
        }
        let usable: Vec<_> =
            bound.iter().filter(|(own, _)| *own == namespace).map(|(_, class)| class.as_str()).collect();
        let instead =
            if usable.is_empty() { String::new() } else { format!("Use {}, or ", usable.join(" or ")) };
        let create = if usable.is_empty() { "Create" } else { "create" };
        CLASSES.error(
            format!("{found}, and there is no VirtualMachineClass {}", absent.join(", ")),
            format!("{instead}{create} the class and a VirtualMachineClassBinding for it in {namespace}"),
        )
    })
}

/// Checks that the namespace may use a TanzuKubernetesCluster's storage classes. Otherwise, the cluster would wait for
/// a quota. Returns `None` for other objects.
fn judge_storage(object: &Value, assigned: &[(String, String)]) -> Option<Diagnosis> {
    if object["kind"] != "TanzuKubernetesCluster" {
        return None;
    }
    let mut classes = BTreeSet::new();
    collect(&object["spec"]["topology"], &["storageClass"], &mut classes);
    let (namespace, named) = (key(object).0, label(object));
    let usable: Vec<_> =
        assigned.iter().filter(|(own, _)| *own == namespace).map(|(_, class)| class.as_str()).collect();
    let missing: Vec<_> = classes.into_iter().filter(|class| !usable.contains(class)).collect();
    if missing.is_empty() {
        return Some(STORAGE.ok(named));
    }
    let found = format!("{named}: namespace {namespace} cannot use the StorageClass {}", missing.join(", "));
    Some(STORAGE.error(
        found,
        match usable.as_slice() {
            [] => format!("Assign a StorageClass to {namespace} with a ResourceQuota"),
            usable => format!(
                "Use {}, or assign the class to {namespace} with a ResourceQuota",
                usable.join(" or ")
            ),
        },
    ))
}

/// Collects the string values of all fields with these names, at any depth.
fn collect<'a>(value: &'a Value, names: &[&str], texts: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                match value {
                    Value::String(text) if names.contains(&member.as_str()) => {
                        texts.insert(text);
                    }
                    value => collect(value, names, texts),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: Value) -> Value {
        json!({"kind": kind, "metadata": {"name": "c", "namespace": "n"}, "spec": spec})
    }

    fn usable_in_n(classes: &[&str]) -> Vec<(String, String)> {
        classes.iter().map(|class| ("n".to_owned(), (*class).to_owned())).collect()
    }

    #[test]
    fn ranges_must_not_hold_addresses_in_use() {
        let cluster = |pods: &str| {
            object(
                "TanzuKubernetesCluster",
                json!({"settings": {"network": {"pods": {"cidrBlocks": [pods]}}}}),
            )
        };
        let addresses = vec![("10.76.1.1".parse().unwrap(), "VirtualMachine node".to_owned())];
        let mut used = Used { addresses, unread: Vec::new() };
        let bad = judge_ranges(&cluster("10.76.0.0/16"), &used).unwrap();
        assert_eq!(bad.outcome, CheckOutcome::Error);
        assert!(
            bad.found.contains("10.76.1.1") && bad.found.contains("VirtualMachine node"),
            "{}",
            bad.found
        );
        assert_eq!(judge_ranges(&cluster("192.168.0.0/16"), &used).unwrap().outcome, CheckOutcome::Ok);
        assert_eq!(judge_ranges(&json!({"kind": "ConfigMap"}), &used), None);
        let endpoint =
            object("Cluster", json!({"controlPlaneEndpoint": {"host": "10.76.1.1", "port": 6443}}));
        assert_eq!(judge_ranges(&endpoint, &used).unwrap().outcome, CheckOutcome::Error);

        used.unread.push("Nodes: User \"ann\" cannot list resource \"nodes\"".to_owned());
        assert_eq!(judge_ranges(&cluster("10.76.0.0/16"), &used).unwrap().outcome, CheckOutcome::Error);
        let partial = judge_ranges(&cluster("192.168.0.0/16"), &used).unwrap();
        assert_eq!(partial.outcome, CheckOutcome::Skipped);
        assert!(partial.found.contains("1 do not conflict. Not read: Nodes: User"), "{partial:?}");
    }

    #[test]
    fn classes_must_be_bound_in_the_namespace() {
        let topology = json!({
            "controlPlane": {"vmClass": "small"}, "nodePools": [{"name": "a", "vmClass": "large"}],
        });
        let cluster = object("TanzuKubernetesCluster", json!({ "topology": topology }));
        let existing =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).into()).collect() };
        let all = judge_classes(&cluster, &usable_in_n(&["small", "large"]), None).unwrap();
        assert_eq!(all.outcome, CheckOutcome::Ok);
        for known in [None, Some(existing(&["small", "large"]))] {
            let one = judge_classes(&cluster, &usable_in_n(&["small"]), known.as_ref()).unwrap();
            assert_eq!(one.outcome, CheckOutcome::Error);
            assert!(one.found.contains("large") && !one.found.contains("small"), "{}", one.found);
            assert_eq!(one.remedy, "Create a VirtualMachineClassBinding for it in n");
        }
        let absent = judge_classes(&cluster, &usable_in_n(&["small"]), Some(&existing(&["small"]))).unwrap();
        assert!(absent.found.ends_with("there is no VirtualMachineClass large"), "{}", absent.found);
        assert_eq!(
            absent.remedy,
            "Use small, or create the class and a VirtualMachineClassBinding for it in n"
        );
    }

    #[test]
    fn storage_classes_must_be_assigned_to_the_namespace() {
        let topology = json!({
            "controlPlane": {"storageClass": "gold"},
            "nodePools": [{"name": "a", "storageClass": "gold", "volumes": [{"storageClass": "fast"}]}],
        });
        let cluster = object("TanzuKubernetesCluster", json!({ "topology": topology }));
        let all = judge_storage(&cluster, &usable_in_n(&["gold", "fast"])).unwrap();
        assert_eq!(all.outcome, CheckOutcome::Ok);
        let one = judge_storage(&cluster, &usable_in_n(&["gold"])).unwrap();
        assert_eq!(one.outcome, CheckOutcome::Error);
        assert!(
            one.found.ends_with("the StorageClass fast") && one.remedy.starts_with("Use gold"),
            "{one:?}"
        );
        let none = judge_storage(&cluster, &[("other".to_owned(), "gold".to_owned())]).unwrap();
        assert!(none.remedy.starts_with("Assign a StorageClass to n"), "{none:?}");
    }

    #[test]
    fn the_worst_finding_of_a_manifest_is_reported() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
        let good = std::fs::read_to_string(path).unwrap();
        assert_eq!(judge_fields("f", &good).outcome, CheckOutcome::Ok);
        let bad = good.replacen("topology:", "topologie:", 1);
        assert_eq!(judge_fields("f", &bad).outcome, CheckOutcome::Error);
    }
}
