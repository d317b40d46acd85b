//! The rules: pure, over the object as it shall be, as it is, and what is known of others.

use std::collections::BTreeMap;
use std::fmt;

use api::names::{annotation, label};
use api::vmop::{
    POWERED_ON, SUSPENDED, VSphereVolume, VirtualMachine, VirtualMachineSpec, VirtualMachineVolume,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::known::{Facts, Zone};

/// The only port a TCP probe may have where the network is restricted.
const RESTRICTED_PORT: i32 = 6443;
const MIB: i128 = 1024 * 1024;

/// One reason why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    field: String,
    reason: String,
    /// It is due to another object, which may still come or change.
    elsewhere: bool,
}

impl Denial {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), elsewhere: false }
    }

    fn elsewhere(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { elsewhere: true, ..Self::new(field, reason) }
    }

    /// Whether it stops this one: a program is only warned of what other objects lack.
    pub fn stops(&self, asker: Asker) -> bool {
        !(self.elsewhere && asker.program)
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// An administrator, who may do what is closed to others.
    pub privileged: bool,
    /// A program: a ServiceAccount.
    pub program: bool,
}

impl Asker {
    /// A user with groups; `named` are the privileged users of the provider configuration.
    pub fn new(user: &str, groups: &[String], named: &[String]) -> Self {
        let in_group = |name: &str| groups.iter().any(|group| group == name);
        Self {
            privileged: in_group("system:masters")
                || in_group("kubeadm:cluster-admins")
                || user == "kubernetes-admin"
                || named.iter().any(|name| name == user),
            program: user.starts_with("system:serviceaccount:"),
        }
    }
}

/// Everything that is wrong with `new`.
///
/// A VM that is going away is never refused anything: its finalizer must come off.
pub fn denials(
    new: &VirtualMachine,
    old: Option<&VirtualMachine>,
    facts: Facts,
    asker: Asker,
) -> Vec<Denial> {
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let was = old.map(|old| &old.spec);
    let mut denials = annotations(new, old, asker);
    // Its VM was there before its object came here: moved or restored, it is taken as it is.
    if old.is_none() && new.annotations().contains_key(annotation::FIRST_BOOT_DONE) {
        return denials;
    }
    denials.extend(name(new, old));
    denials.extend(zone(new, old, facts));
    // What was accepted once is not refused later for what the rest of the world has become.
    if was != Some(&new.spec) {
        denials.extend(storage(new, old, facts));
        denials.extend(networks(&new.spec, was, facts));
        denials.extend(volumes(new));
        denials.extend(probe(&new.spec, facts));
        denials.extend(instance_storage(&new.spec, was, asker));
        denials.extend(power(&new.spec, was));
    }
    denials
}

/// The longest name that vCenter gives a VM.
const LONGEST_NAME: usize = 80;

/// A VM has its object's name, which may be longer than vCenter's names are.
fn name(new: &VirtualMachine, old: Option<&VirtualMachine>) -> Option<Denial> {
    let length = new.metadata.name.as_deref().map_or(0, str::len);
    (old.is_none() && length > LONGEST_NAME).then(|| {
        let reason = format!(
            "must have at most {LONGEST_NAME} characters, as names of VMs in vCenter do; it has {length}. Use a shorter name"
        );
        Denial::new("metadata.name", reason)
    })
}

/// Rule 3: the storage class is there, and the namespace was given it.
fn storage(new: &VirtualMachine, old: Option<&VirtualMachine>, facts: Facts) -> Option<Denial> {
    let class = new.spec.storage_class.as_deref().filter(|class| !class.is_empty())?;
    if old.is_some() || facts.storage_class_assigned != Some(false) {
        return None;
    }
    let namespace = new.namespace().unwrap_or_default();
    let reason = format!("Storage policy is not associated with the namespace {namespace}");
    Some(Denial::elsewhere("spec.storageClass", format!("Invalid value: {class:?}: {reason}")))
}

/// Rule 4, as far as it depends on the network provider.
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

/// Rule 5, as far as the definition can't say it.
fn volumes(new: &VirtualMachine) -> Vec<Denial> {
    let name = new.name_any();
    let mut denials = Vec::new();
    for (index, volume) in new.spec.volumes.iter().enumerate() {
        let field = format!("spec.volumes[{index}]");
        let attachment = format!("{name}-{}", volume.name);
        if volume.persistent_volume_claim.is_some() && !is_dns_subdomain(&attachment) {
            let reason = format!(
                "Invalid value: {:?}: {attachment:?} must be a DNS subdomain name: at most 253 lower case letters, digits, \
                 '-' and '.'",
                volume.name
            );
            denials.push(Denial::new(format!("{field}.name"), reason));
        }
        if volume.v_sphere_volume.as_ref().is_some_and(|disk| !is_whole_mib(disk)) {
            denials.push(Denial::new(
                format!("{field}.vSphereVolume.capacity.ephemeral-storage"),
                "Invalid value: value must be a multiple of MB: write it in Mi or Gi",
            ));
        }
    }
    denials
}

fn is_whole_mib(disk: &VSphereVolume) -> bool {
    disk.capacity
        .get("ephemeral-storage")
        .is_none_or(|size| size.millis().is_ok_and(|millis| millis > 0 && millis % (1000 * MIB) == 0))
}

fn is_dns_subdomain(name: &str) -> bool {
    let letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().copied().is_some_and(letter)
            && bytes.last().copied().is_some_and(letter)
            && bytes.iter().all(|c| letter(*c) || *c == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Rule 7, as far as it depends on the provider configuration.
fn probe(spec: &VirtualMachineSpec, facts: Facts) -> Option<Denial> {
    let port = &spec.readiness_probe.as_ref()?.tcp_socket.as_ref()?.port;
    let allowed = *port == IntOrString::Int(RESTRICTED_PORT);
    (facts.restricted_network && !allowed).then(|| {
        let reason = format!("Unsupported value: {}: supported values: \"{RESTRICTED_PORT}\"", shown(port));
        Denial::new("spec.readinessProbe.tcpSocket.port", reason)
    })
}

fn shown(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => format!("{name:?}"),
    }
}

/// Rule 8: instance storage is claimed for a VM by VM Operator alone.
fn instance_storage(
    spec: &VirtualMachineSpec,
    old: Option<&VirtualMachineSpec>,
    asker: Asker,
) -> Option<Denial> {
    let claims = |spec: &VirtualMachineSpec| -> Vec<VirtualMachineVolume> {
        let claimed = |volume: &&VirtualMachineVolume| {
            volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.instance_volume_claim.is_some())
        };
        spec.volumes.iter().filter(claimed).cloned().collect()
    };
    let same = claims(spec) == old.map(claims).unwrap_or_default();
    (!asker.privileged && !same).then(|| {
        let reason = "Forbidden: adding or modifying instance storage volume claim(s) is not allowed";
        Denial::new("spec.volumes", reason)
    })
}

/// Rule 9: the zone is there, and stays what it is.
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

/// What a VM may be asked to do with its power, where the definition can't say it.
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

/// Annotations that only administrators and programs of the platform may set, and one that needs a policy.
fn annotations(new: &VirtualMachine, old: Option<&VirtualMachine>, asker: Asker) -> Vec<Denial> {
    let before = old.map(ResourceExt::annotations);
    let mut denials = Vec::new();
    if !asker.privileged {
        let keys = new.annotations().keys().chain(before.into_iter().flat_map(BTreeMap::keys));
        let mut keys: Vec<&String> = keys.filter(|key| is_protected(key)).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            if new.annotations().get(key) != before.and_then(|before| before.get(key)) {
                denials.push(Denial::new(
                    format!("metadata.annotations[{key}]"),
                    "Forbidden: modifying this annotation is not allowed for non-admin users: name who must in \
                     PrivilegedUsers of the provider configuration",
                ));
            }
        }
    }
    let group = |vm: &VirtualMachine| vm.annotations().get(annotation::CLUSTER_MODULE_GROUP).cloned();
    let policy = new.spec.resource_policy_name.as_deref().unwrap_or_default();
    if policy.is_empty()
        && group(new).is_some_and(|group| !group.is_empty())
        && old.and_then(group) != group(new)
    {
        denials.push(Denial::new(
            format!("metadata.annotations[{}]", annotation::CLUSTER_MODULE_GROUP),
            "Forbidden: a group needs spec.resourcePolicyName: its policy has the groups",
        ));
    }
    denials
}

fn is_protected(key: &str) -> bool {
    [annotation::FIRST_BOOT_DONE, annotation::CLOUD_INIT_INSTANCE_ID].contains(&key)
        || annotation::PROTECTED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// The label of instance storage on a claim is set and taken away by VM Operator alone.
pub fn claim_denials(
    new: &BTreeMap<String, String>,
    old: Option<&BTreeMap<String, String>>,
    asker: Asker,
) -> Vec<Denial> {
    let key = label::INSTANCE_STORAGE;
    let same = new.get(key) == old.and_then(|old| old.get(key));
    let denial = (!asker.privileged && !same).then(|| {
        let reason = "Forbidden: the label of instance storage can be changed by administrators alone";
        Denial::new(format!("metadata.labels[{key}]"), reason)
    });
    denial.into_iter().collect()
}
