//! Validation rules. They are pure functions of the new object, the old object and facts about related objects.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotation, label};
use api::vmop::{POWERED_ON, SUSPENDED, VirtualMachine, VirtualMachineSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::Value;

use super::denial::{Asker, Denial};
use super::known::{Facts, Zone};
use super::volumes::{instance_storage, volumes};
use crate::vcenter::LONGEST_NAME;
use crate::virtualmachine::readiness::{NO_PORT, probe_port};

/// The only port that a TCP probe may use in restricted networks.
const RESTRICTED_PORT: i32 = 6443;

/// Denies changes to a VM's UUIDs by requesters who aren't privileged. This webhook runs before the one that generates missing
/// UUIDs.
///
/// The API server calls this webhook only for users whom RBAC doesn't permit to set identities.
pub fn identity_denials(new: &VirtualMachine, old: Option<&VirtualMachine>, asker: Asker) -> Vec<Denial> {
    let fields = [
        ("spec.biosUUID", &new.spec.bios_uuid, old.map(|old| &old.spec.bios_uuid)),
        ("spec.instanceUUID", &new.spec.instance_uuid, old.map(|old| &old.spec.instance_uuid)),
    ];
    let given = |uuid: Option<&Option<String>>| uuid.cloned().flatten().unwrap_or_default();
    let changed = fields.into_iter().filter(|(_, new, old)| given(Some(new)) != given(*old));
    let denial = |field: &str| {
        let reason = "Forbidden: VM Operator generates the identity of a VM. Leave the field out. To restore or move VirtualMachines, a user needs the verb update on virtualmachines/identity in all namespaces";
        Denial::new(field, reason)
    };
    changed.filter(|_| !asker.privileged).map(|(field, ..)| denial(field)).collect()
}

/// Returns all denials for `new`.
///
/// If the VM is being deleted, only protected annotations are checked, because a change to them could block the deletion. All
/// other checks are skipped, so that the finalizer can always be removed.
pub fn denials(
    new: &VirtualMachine,
    old: Option<&VirtualMachine>,
    facts: Facts,
    asker: Asker,
) -> Vec<Denial> {
    let mut denials = protected_annotations(new, old, asker);
    if new.metadata.deletion_timestamp.is_some() {
        return denials;
    }
    let was = old.map(|old| &old.spec);
    denials.extend(module_group(new, old));
    // The VM existed before its VirtualMachine was created here (moved or restored), so the spec is accepted unchanged.
    if old.is_none() && new.annotations().contains_key(annotation::FIRST_BOOT_DONE) {
        return denials;
    }
    denials.extend(name(new, old));
    denials.extend(host_name(new, old));
    denials.extend(zone(new, old, facts));
    // An accepted spec isn't rejected later because other objects changed.
    if was != Some(&new.spec) {
        denials.extend(storage(new, old, facts));
        denials.extend(networks(&new.spec, was, facts));
        denials.extend(volumes(new));
        denials.extend(probe(new, old, facts));
        denials.extend(instance_storage(&new.spec, was, asker));
        denials.extend(power(&new.spec, was));
    }
    denials
}

/// Denies a new VM whose name is too long for vCenter. The API server's limit for object names is higher.
fn name(new: &VirtualMachine, old: Option<&VirtualMachine>) -> Option<Denial> {
    let length = new.metadata.name.as_deref().map_or(0, str::len);
    (old.is_none() && length > LONGEST_NAME).then(|| {
        let reason = format!(
            "must have at most {LONGEST_NAME} characters, the limit for VM names in vCenter; it has {length}. Use a shorter name"
        );
        Denial::new("metadata.name", reason)
    })
}

/// Warns if the guest can't use a new VM's name as its host name, because the name is too long or has only digits before the
/// domain.
fn host_name(new: &VirtualMachine, old: Option<&VirtualMachine>) -> Option<Denial> {
    const LONGEST_LABEL: usize = 63;
    const LONGEST_HOST_NAME: usize = 64;
    let name = new.metadata.name.as_deref().filter(|_| old.is_none())?;
    let host = name.split('.').next().unwrap_or_default();
    let reason = if host.len() > LONGEST_LABEL || name.len() > LONGEST_HOST_NAME {
        format!(
            "the guest gets this host name, and a host name has at most {LONGEST_LABEL} characters before its domain, {LONGEST_HOST_NAME} in Linux with it. Use a shorter name"
        )
    } else if host.bytes().all(|byte| byte.is_ascii_digit()) {
        "the guest gets this host name, and vCenter's guest customization refuses a host name of digits only. Add a letter".to_owned()
    } else {
        return None;
    };
    (name.len() <= LONGEST_NAME).then(|| Denial::warning("metadata.name", reason))
}

/// Denies a new VM whose storage class doesn't exist or isn't assigned to the namespace.
fn storage(new: &VirtualMachine, old: Option<&VirtualMachine>, facts: Facts) -> Option<Denial> {
    let class = new.spec.storage_class.as_deref().filter(|class| !class.is_empty())?;
    if old.is_some() || facts.storage_class_assigned != Some(false) {
        return None;
    }
    let namespace = new.namespace().unwrap_or_default();
    let reason = format!("Storage policy is not associated with the namespace {namespace}");
    Some(Denial::elsewhere("spec.storageClass", format!("Invalid value: {class:?}: {reason}")))
}

/// Denies changed interfaces without a network type, unless the network provider lets interfaces refer to vCenter networks by
/// name.
fn networks(spec: &VirtualMachineSpec, old: Option<&VirtualMachineSpec>, facts: Facts) -> Vec<Denial> {
    if old.is_some_and(|old| old.network_interfaces == spec.network_interfaces) || facts.named_networks {
        return Vec::new();
    }
    let nameless = |nic: &api::vmop::VirtualMachineNetworkInterface| {
        nic.network_type.as_deref().unwrap_or_default().is_empty()
    };
    let interfaces = spec.network_interfaces.iter().enumerate().filter(|(_, nic)| nameless(nic));
    interfaces
        .map(|(index, _)| {
            let field = format!("spec.networkInterfaces[{index}].networkType");
            Denial::new(
                field,
                "Invalid value: \"\": not supported in production: use nsx-t or vsphere-distributed",
            )
        })
        .collect()
}

/// Returns denials for vCenter networks that the namespace may not use. `refusal` returns the reason for a network name, or
/// `None` if the network is allowed.
pub fn network_denials(
    new: &VirtualMachine,
    old: Option<&VirtualMachine>,
    asker: Asker,
    refusal: impl Fn(&str) -> Option<String>,
) -> Vec<Denial> {
    let same = old.is_some_and(|old| old.spec.network_interfaces == new.spec.network_interfaces);
    let moved = old.is_none() && new.annotations().contains_key(annotation::FIRST_BOOT_DONE);
    if same || new.metadata.deletion_timestamp.is_some() || (moved && asker.privileged) {
        return Vec::new();
    }
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let interfaces = new.spec.network_interfaces.iter().enumerate();
    let named =
        interfaces.filter(|(_, nic)| given(&nic.network_type).is_none() && nic.provider_ref.is_none());
    let refused = named.filter_map(|(index, nic)| {
        let why = refusal(&given(&nic.network_name)?)?;
        Some(Denial::elsewhere(
            format!("spec.networkInterfaces[{index}].networkName"),
            format!("Forbidden: {why}"),
        ))
    });
    refused.collect()
}

/// Checks the readiness probe: in restricted networks, only one TCP port is allowed, and a probe may only connect to its own
/// VM's addresses.
fn probe(new: &VirtualMachine, old: Option<&VirtualMachine>, facts: Facts) -> Vec<Denial> {
    let (field, was) = ("spec.readinessProbe", old.and_then(|old| old.spec.readiness_probe.as_ref()));
    let Some(probe) = new.spec.readiness_probe.as_ref().filter(|probe| was != Some(*probe)) else {
        return Vec::new();
    };
    let Some(socket) = probe.tcp_socket.as_ref() else { return Vec::new() };
    let mut denials = Vec::new();
    if facts.restricted_network && socket.port != IntOrString::Int(RESTRICTED_PORT) {
        let port = shown(&socket.port);
        let reason = format!("Unsupported value: {port}: supported values: \"{RESTRICTED_PORT}\"");
        denials.push(Denial::new(format!("{field}.tcpSocket.port"), reason));
    } else if probe_port(&new.spec, &socket.port).is_none() {
        let reason = format!("Invalid value: {}: it {NO_PORT}", shown(&socket.port));
        denials.push(Denial::new(format!("{field}.tcpSocket.port"), reason));
    }
    let status = old.and_then(|old| old.status.as_ref());
    let own = status.map(|status| status.endpoint_addresses.as_slice()).unwrap_or_default();
    if let Some(host) = socket.host.as_ref().filter(|host| !host.is_empty() && !own.contains(*host)) {
        let reason = "a probe can only connect to the addresses of its own VM. Leave the host out, or use one of status.endpointAddresses";
        denials.push(Denial::new(
            format!("{field}.tcpSocket.host"),
            format!("Invalid value: {host:?}: {reason}"),
        ));
    }
    denials
}

fn shown(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => format!("{name:?}"),
    }
}

/// Denies a zone that doesn't exist, and a zone change.
fn zone(new: &VirtualMachine, old: Option<&VirtualMachine>, facts: Facts) -> Option<Denial> {
    let field = format!("metadata.labels[{}]", label::ZONE);
    let of = |vm: &VirtualMachine| vm.labels().get(label::ZONE).filter(|zone| !zone.is_empty()).cloned();
    let zone = of(new);
    if let Some(was) = old.and_then(of) {
        let changed = zone.as_ref() != Some(&was);
        return changed.then(|| {
            Denial::new(field, format!("Invalid value: {:?}: field is immutable", zone.unwrap_or_default()))
        });
    }
    match (zone?, facts.zone) {
        (_, Zone::There | Zone::Unknown) => None,
        (zone, Zone::Going) => Some(Denial::elsewhere(
            field,
            format!("Invalid value: {zone:?}: cannot use zone that is being deleted"),
        )),
        (zone, Zone::Missing) => {
            let namespace = new.namespace().unwrap_or_default();
            let reason =
                format!("Invalid value: {zone:?}: the namespace {namespace} has no zone of this name");
            Some(Denial::elsewhere(field, reason))
        }
    }
}

/// Rules for power state and restart time that the CRD schema can't express.
fn power(spec: &VirtualMachineSpec, old: Option<&VirtualMachineSpec>) -> Vec<Denial> {
    let mut denials = Vec::new();
    let time = spec.next_restart_time.as_deref().filter(|time| !time.is_empty());
    let field = "spec.nextRestartTime";
    let Some(old) = old else {
        if spec.power_state.as_deref() == Some(SUSPENDED) {
            let reason =
                format!("Invalid value: {SUSPENDED:?}: cannot set a new VM's power state to {SUSPENDED}");
            denials.push(Denial::new("spec.powerState", reason));
        }
        denials.extend(
            time.map(|time| {
                Denial::new(field, format!("Invalid value: {time:?}: cannot restart VM on create"))
            }),
        );
        return denials;
    };
    let changed = time.filter(|_| old.next_restart_time != spec.next_restart_time);
    denials.extend(changed.and_then(|time| {
        let on = old.power_state.as_deref().unwrap_or(POWERED_ON) == POWERED_ON;
        let reason = match time {
            _ if !on => "can only restart powered on vm",
            now if now.eq_ignore_ascii_case("now") => "mutation webhooks are required to restart VM",
            time if time.parse::<jiff::Timestamp>().is_ok() => return None,
            _ => "must be \"now\", or a time formatted as RFC3339Nano",
        };
        Some(Denial::new(field, format!("Invalid value: {time:?}: {reason}")))
    }));
    denials
}

/// Denies changes to annotations that only administrators and platform components may change.
fn protected_annotations(new: &VirtualMachine, old: Option<&VirtualMachine>, asker: Asker) -> Vec<Denial> {
    if asker.privileged {
        return Vec::new();
    }
    let before = old.map(ResourceExt::annotations);
    let keys = new.annotations().keys().chain(before.into_iter().flat_map(BTreeMap::keys));
    let keys: BTreeSet<&String> = keys.filter(|key| is_protected(key)).collect();
    let changed = keys
        .into_iter()
        .filter(|key| new.annotations().get(*key) != before.and_then(|before| before.get(*key)));
    changed.map(|key| protected(key)).collect()
}

/// Denies a new cluster module group annotation on a VM without a resource policy, because policies define the groups.
fn module_group(new: &VirtualMachine, old: Option<&VirtualMachine>) -> Option<Denial> {
    let group = |vm: &VirtualMachine| vm.annotations().get(annotation::CLUSTER_MODULE_GROUP).cloned();
    let policy = new.spec.resource_policy_name.as_deref().unwrap_or_default();
    let lacks = policy.is_empty()
        && group(new).is_some_and(|group| !group.is_empty())
        && old.and_then(group) != group(new);
    lacks.then(|| {
        Denial::new(
            format!("metadata.annotations[{}]", annotation::CLUSTER_MODULE_GROUP),
            "Forbidden: a group requires spec.resourcePolicyName, because the policy defines the groups",
        )
    })
}

fn protected(key: &str) -> Denial {
    Denial::new(
        format!("metadata.annotations[{key}]"),
        "Forbidden: modifying this annotation is not allowed for non-admin users. To allow it for a user, add the user to PrivilegedUsers in the provider configuration",
    )
}

/// Reserves a cluster's policy for the cluster's machines, because another VM in the policy's folder would block the cluster's
/// deletion. A label that only capw can set identifies machines. `cluster` is the cluster that owns the policy.
pub fn policy_user_denial(
    new: &VirtualMachine,
    old: Option<&VirtualMachine>,
    cluster: Option<&str>,
) -> Option<Denial> {
    let cluster = cluster?;
    let name = new.spec.resource_policy_name.as_deref().unwrap_or_default();
    let is_new = old.is_none_or(|old| old.spec.resource_policy_name != new.spec.resource_policy_name);
    let is_member = new.labels().get(label::CAPW_CLUSTER_NAME).is_some_and(|of| of == cluster);
    (is_new && !is_member).then(|| {
        let reason = format!(
            "Forbidden: policy {name} is reserved for the machines of cluster {cluster}. Use another policy, or leave the field out"
        );
        Denial::new("spec.resourcePolicyName", reason)
    })
}

/// Lets only VM Operator and administrators change a policy's ledger, because VM Operator changes and destroys the objects in
/// the ledger.
///
/// This also applies while the policy is being deleted, because then the objects in the ledger are destroyed.
pub fn policy_denials(new: &Value, old: &Value, asker: Asker) -> Option<Denial> {
    (!asker.privileged && new != old).then(|| protected(annotation::RESOURCE_POLICY_LEDGER))
}

fn is_protected(key: &str) -> bool {
    [annotation::FIRST_BOOT_DONE, annotation::DISKS, annotation::CLOUD_INIT_INSTANCE_ID].contains(&key)
        || annotation::PROTECTED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}
