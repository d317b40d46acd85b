//! Rules for volumes (names, sizes, unit numbers) and instance storage.

use std::collections::BTreeMap;

use api::names::label;
use api::vmop::{LARGEST_DISK_MIB, VSphereVolume, VirtualMachine, VirtualMachineSpec, VirtualMachineVolume};
use kube::ResourceExt;

use super::denial::{Asker, Denial};

const MIB: i128 = 1024 * 1024;

/// Checks attachment names, unit numbers and disk sizes, as far as the CRD schema can't express the rules.
pub(super) fn volumes(new: &VirtualMachine) -> Vec<Denial> {
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
        if let Some(reason) = unit_reason(volume, &new.spec.volumes[..index]) {
            denials.push(Denial::new(format!("{field}.unitNumber"), format!("Invalid value: {reason}")));
        }
        if volume.v_sphere_volume.as_ref().is_some_and(is_too_large) {
            denials.push(Denial::new(
                format!("{field}.vSphereVolume.capacity.ephemeral-storage"),
                "Invalid value: a virtual disk has at most 62Ti. Use several disks",
            ));
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

/// Returns the reason why a volume can't have its unit number, or `None` if it can. `before` contains the volumes that precede
/// it in the spec.
fn unit_reason(volume: &VirtualMachineVolume, before: &[VirtualMachineVolume]) -> Option<String> {
    const OF_CONTROLLER: i32 = 7;
    let unit = volume.unit_number?;
    if volume.v_sphere_volume.is_none() {
        return Some("only a vSphereVolume can have a unit number. Leave it out".to_owned());
    }
    if unit == OF_CONTROLLER {
        return Some(format!("{unit} is the unit number of the SCSI controller itself. Use another"));
    }
    let twin = before.iter().find(|other| other.unit_number == Some(unit))?;
    Some(format!("{unit} is already the unit number of volume {}. Use another", twin.name))
}

fn is_too_large(disk: &VSphereVolume) -> bool {
    let size = disk.capacity.get("ephemeral-storage").and_then(|size| size.mib().ok());
    size.is_some_and(|mib| mib > LARGEST_DISK_MIB)
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

/// Lets only VM Operator and administrators change a VM's instance storage claims.
pub(super) fn instance_storage(
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

/// Lets only VM Operator and administrators change the instance storage label on a claim.
pub fn claim_denials(
    new: &BTreeMap<String, String>,
    old: Option<&BTreeMap<String, String>>,
    asker: Asker,
) -> Vec<Denial> {
    let key = label::INSTANCE_STORAGE;
    let same = new.get(key) == old.and_then(|old| old.get(key));
    let denial = (!asker.privileged && !same).then(|| {
        let reason = "Forbidden: only administrators can change the label of instance storage";
        Denial::new(format!("metadata.labels[{key}]"), reason)
    });
    denial.into_iter().collect()
}
