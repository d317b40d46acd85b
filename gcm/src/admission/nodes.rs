//! Validates the names of clusters and pools, and the settings of node groups, such as node counts and labels.

use std::collections::{BTreeMap, BTreeSet};

use api::gcm::parts::{NodePool, Topology, Volume};
use k8s_openapi::api::core::v1::Taint;

use super::denial::FieldDenial;
use super::dns::{is_dns_label, is_dns_subdomain};
use crate::duration;
use crate::spec::groups::zone;
use crate::spec::labels::{kubelet_may_set, machine_label_reaches_node};

/// The maximum length of a cluster name. The suffix `-control-plane-service` is added to the name, and names are limited to 63
/// characters.
pub const LONGEST_NAME: usize = 41;
/// The pool name that is reserved, because the control plane's objects use it.
const RESERVED: &str = "control-plane";
const CONTROL_PLANE: &str = "spec.topology.controlPlane";

pub(super) fn name_denials(name: &str) -> Vec<FieldDenial> {
    let mut denials = Vec::new();
    if name.len() > LONGEST_NAME {
        denials.push(FieldDenial::new(
            "metadata.name",
            format!(
                "{name:?} has {} characters, and {name}-control-plane-service must not have more than 63",
                name.len()
            ),
            format!("Use at most {LONGEST_NAME} characters"),
        ));
    }
    if !name.is_empty() && (!is_dns_label(name) || name.starts_with(|c: char| c.is_ascii_digit())) {
        denials.push(FieldDenial::new(
            "metadata.name",
            format!("{name:?} cannot be the name of a service or a host"),
            "Use lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit",
        ));
    }
    denials
}

/// Returns the denials for the node groups. `namespace` appears in the remedies.
pub(super) fn topology_denials(topology: &Topology, namespace: Option<&str>) -> Vec<FieldDenial> {
    let mut denials = Vec::new();
    let cp = &topology.control_plane;
    if !matches!(cp.replicas, None | Some(1 | 3)) {
        let reason =
            format!("control plane can only be either 1 or 3 nodes, not {}", cp.replicas.unwrap_or_default());
        denials.push(FieldDenial::new(
            format!("{CONTROL_PLANE}.replicas"),
            reason,
            "Use 1, or 3 for high availability",
        ));
    }
    denials.extend(machine_denials(
        CONTROL_PLANE,
        namespace,
        &cp.vm_class,
        &cp.storage_class,
        cp.volumes.as_deref(),
    ));
    denials.extend(timeout_denial(CONTROL_PLANE, cp.node_drain_timeout.as_deref()));
    for (at, pool) in topology.node_pools.iter().enumerate() {
        let field = format!("spec.topology.nodePools[{at}]");
        let twin = topology.node_pools[..at].iter().any(|other| other.name == pool.name);
        denials.extend(pool_name_denial(&format!("{field}.name"), &pool.name, twin));
        denials.extend(pool_denials(&field, namespace, pool));
    }
    denials
}

fn pool_name_denial(field: &str, name: &str, twin: bool) -> Option<FieldDenial> {
    let (reason, remedy) = if !is_dns_label(name) {
        (
            format!("{name:?} cannot be part of a host name"),
            "Use at most 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
                .to_owned(),
        )
    } else if name == RESERVED {
        (
            format!("{RESERVED:?} is reserved for the objects of the control plane"),
            "Use another name".to_owned(),
        )
    } else if twin {
        (format!("another pool has the name {name:?}"), "Give each pool a unique name".to_owned())
    } else {
        return None;
    };
    Some(FieldDenial::new(field, reason, remedy))
}

fn pool_denials(field: &str, namespace: Option<&str>, pool: &NodePool) -> Vec<FieldDenial> {
    let mut denials =
        machine_denials(field, namespace, &pool.vm_class, &pool.storage_class, pool.volumes.as_deref());
    if let Some(replicas) = pool.replicas.filter(|replicas| *replicas < 0) {
        denials.push(FieldDenial::new(
            format!("{field}.replicas"),
            format!("{replicas} is not a valid number of nodes"),
            "Use 0 or more, or leave it out where an autoscaler decides",
        ));
    }
    denials.extend(timeout_denial(field, pool.node_drain_timeout.as_deref()));
    denials.extend(pool.labels.iter().flatten().filter_map(|(key, value)| label_denial(field, key, value)));
    denials.extend(taint_denials(field, pool.taints.as_deref().unwrap_or_default()));
    denials
}

fn machine_denials(
    field: &str,
    namespace: Option<&str>,
    class: &str,
    storage: &str,
    volumes: Option<&[Volume]>,
) -> Vec<FieldDenial> {
    let (there, flag) = match namespace {
        Some(namespace) => (format!("namespace {namespace}"), format!(" -n {namespace}")),
        None => ("the cluster's namespace".to_owned(), String::new()),
    };
    let mut denials = Vec::new();
    for (key, value, remedy) in [
        (
            "vmClass",
            class,
            format!(
                "Set vmClass to a class that is bound to {there}. List the classes with `kubectl get virtualmachineclassbindings{flag}`"
            ),
        ),
        (
            "storageClass",
            storage,
            format!(
                "Set storageClass to a storage class that is assigned to {there}. List the classes with `kubectl describe resourcequotas{flag}`"
            ),
        ),
    ] {
        if value.trim().is_empty() {
            denials.push(FieldDenial::new(format!("{field}.{key}"), "it is missing", remedy));
        }
    }
    denials.extend(volume_denials(field, volumes.unwrap_or_default()));
    denials
}

fn volume_denials(field: &str, volumes: &[Volume]) -> Vec<FieldDenial> {
    let mut denials = Vec::new();
    for (at, volume) in volumes.iter().enumerate() {
        let field = format!("{field}.volumes[{at}]");
        let mut deny = |key: &str, reason: String, remedy: &str| {
            denials.push(FieldDenial::new(format!("{field}.{key}"), reason, remedy));
        };
        let before = &volumes[..at];
        if !is_dns_label(&volume.name) {
            deny(
                "name",
                format!("{:?} cannot be part of the name of a disk", volume.name),
                "Use lower-case letters, digits and '-'",
            );
        } else if before.iter().any(|other| other.name == volume.name) {
            deny(
                "name",
                format!("another volume has the name {:?}", volume.name),
                "Give each volume a unique name",
            );
        }
        let path = volume.mount_path.trim_end_matches('/');
        if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
            deny(
                "mountPath",
                format!("{:?} is not an absolute path", volume.mount_path),
                "Use a path such as /var/lib/containerd",
            );
        } else if before.iter().any(|other| other.mount_path.trim_end_matches('/') == path) {
            deny(
                "mountPath",
                format!("another volume is mounted at {path}"),
                "Mount each volume at a different path",
            );
        }
        match volume.capacity.get("storage").map(api::Quantity::value) {
            None => deny(
                "capacity",
                "the size of the disk is missing".to_owned(),
                "Set capacity.storage to a size such as 16Gi",
            ),
            Some(Ok(bytes)) if bytes > 0 => {}
            Some(Ok(_)) => deny(
                "capacity.storage",
                "a disk cannot be this small".to_owned(),
                "Write a size such as 16Gi",
            ),
            Some(Err(error)) => deny("capacity.storage", error.to_string(), "Write a size such as 16Gi"),
        }
    }
    denials
}

fn timeout_denial(field: &str, timeout: Option<&str>) -> Option<FieldDenial> {
    let text = timeout.filter(|text| duration::parse_seconds(text).is_none())?;
    Some(FieldDenial::new(
        format!("{field}.nodeDrainTimeout"),
        format!("{text:?} is not a duration"),
        "Write a duration such as 5m or 1h30m; 0 means no limit",
    ))
}

/// Returns true if a label or taint key is well formed: an optional DNS subdomain and a slash, then a name.
fn key_is_valid(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && value_is_valid(name)
}

fn value_is_valid(value: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(value.chars().next())
        && edge(value.chars().next_back())
}

/// Returns true if other programs identify machines or nodes by this label. For example, Cluster API treats a worker with the
/// label `cluster.x-k8s.io/control-plane` as a control plane node.
fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    (within("cluster.x-k8s.io") && !machine_label_reaches_node(key)) || within("run.tanzu.vmware.com")
}

fn label_denial(field: &str, key: &str, value: &str) -> Option<FieldDenial> {
    let field = format!("{field}.labels");
    if !key_is_valid(key) || !value_is_valid(value) {
        let reason = format!("{key}={value} is not a valid label");
        return Some(FieldDenial::new(
            field,
            reason,
            "Use letters, digits, '-', '_' and '.', at most 63, with an optional domain/ before the key",
        ));
    }
    if is_reserved(key) {
        let reason = format!("the label {key} is reserved: programs identify machines by it");
        return Some(FieldDenial::new(field, reason, "Use a domain of your own"));
    }
    (!kubelet_may_set(key) && !machine_label_reaches_node(key)).then(|| {
        FieldDenial::new(
            field,
            format!("a kubelet cannot set the label {key} on its node"),
            "Use a domain of your own, or node-restriction.kubernetes.io",
        )
    })
}

fn taint_denials(field: &str, taints: &[Taint]) -> Vec<FieldDenial> {
    let mut seen = BTreeMap::new();
    let mut denials = Vec::new();
    for (at, taint) in taints.iter().enumerate() {
        let field = format!("{field}.taints[{at}]");
        if !key_is_valid(&taint.key) {
            denials.push(FieldDenial::new(
                format!("{field}.key"),
                format!("{:?} is not a valid key", taint.key),
                "Use a valid taint key, for example \"dedicated\" or \"example.com/team\"",
            ));
        }
        if !taint.value.as_deref().is_none_or(value_is_valid) {
            denials.push(FieldDenial::new(
                format!("{field}.value"),
                "it is not a valid value",
                "Use letters, digits, '-', '_' and '.', at most 63",
            ));
        }
        if !matches!(taint.effect.as_str(), "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            denials.push(FieldDenial::new(
                format!("{field}.effect"),
                format!("{:?} is not an effect", taint.effect),
                "Use NoSchedule, PreferNoSchedule or NoExecute",
            ));
        }
        if seen.insert((taint.key.as_str(), taint.effect.as_str()), at).is_some() {
            denials.push(FieldDenial::new(
                field,
                "another taint has the same key and effect",
                "Remove one of them",
            ));
        }
    }
    denials
}

/// Returns the denial for a control plane that scales down. As in vSphere with Tanzu, control planes only scale up, so an etcd
/// cluster with three members keeps all of them.
pub(super) fn change_denials(old: &Topology, new: &Topology) -> Vec<FieldDenial> {
    let nodes = |topology: &Topology| topology.control_plane.replicas.unwrap_or(1);
    let (before, after) = (nodes(old), nodes(new));
    let fewer = (after < before).then(|| {
        FieldDenial::new(
            format!("{CONTROL_PLANE}.replicas"),
            format!("a control plane can be scaled up, not down from {before} to {after}"),
            format!("Keep {before}"),
        )
    });
    fewer.into_iter().collect()
}

/// Returns the field path, VM class, storage class and volumes of each node group.
fn groups(topology: &Topology) -> impl Iterator<Item = (String, &str, &str, &[Volume])> {
    let cp = &topology.control_plane;
    let control_plane = (
        CONTROL_PLANE.to_owned(),
        cp.vm_class.as_str(),
        cp.storage_class.as_str(),
        cp.volumes.as_deref().unwrap_or_default(),
    );
    let pools = topology.node_pools.iter().enumerate().map(|(at, pool)| {
        let field = format!("spec.topology.nodePools[{at}]");
        (
            field,
            pool.vm_class.as_str(),
            pool.storage_class.as_str(),
            pool.volumes.as_deref().unwrap_or_default(),
        )
    });
    std::iter::once(control_plane).chain(pools)
}

pub(super) fn offered(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "The namespace has none".to_owned();
    }
    format!("The namespace has {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
}

/// Returns warnings about VM classes that aren't bound to the namespace.
pub fn unbound(topology: &Topology, namespace: &str, bound: &BTreeSet<String>) -> Vec<String> {
    groups(topology)
        .filter(|(_, class, ..)| !bound.contains(*class))
        .map(|(field, class, ..)| {
            format!("{field}.vmClass: VirtualMachineClass {class:?} is not bound to namespace {namespace:?}; the nodes wait until it is. {}", offered(bound))
        })
        .collect()
}

/// Returns warnings about the pools' failure domains that aren't zones in the namespace.
pub fn unzoned(topology: &Topology, namespace: &str, zones: &BTreeSet<String>) -> Vec<String> {
    let pools = topology.node_pools.iter().enumerate();
    pools
        .filter_map(|(at, pool)| {
            let zone = zone(pool).filter(|zone| !zones.contains(*zone))?;
            Some(format!(
                "spec.topology.nodePools[{at}].failureDomain: zone {zone:?} does not exist in namespace {namespace:?}; the nodes wait until it does. {}",
                offered(zones)
            ))
        })
        .collect()
}

/// Returns warnings about storage classes of nodes and volumes that aren't assigned to the namespace.
pub fn unassigned(topology: &Topology, namespace: &str, assigned: &BTreeSet<String>) -> Vec<String> {
    let text = |field: String, class: &str| {
        let group = if field.starts_with(CONTROL_PLANE) { "control plane" } else { "worker" };
        format!(
            "{field}.storageClass: storage class is not valid for {group} VM: StorageClass '{class}' is not assigned for namespace '{namespace}'. {}",
            offered(assigned)
        )
    };
    groups(topology)
        .flat_map(|(field, _, storage, volumes)| {
            let disks = volumes.iter().enumerate().filter_map(|(at, volume)| {
                let class = volume.storage_class.as_deref().filter(|class| !class.is_empty())?;
                Some((format!("{field}.volumes[{at}]"), class))
            });
            std::iter::once((field.clone(), storage)).chain(disks).collect::<Vec<_>>()
        })
        .filter(|(_, class)| !assigned.contains(*class))
        .map(|(field, class)| text(field, class))
        .collect()
}
