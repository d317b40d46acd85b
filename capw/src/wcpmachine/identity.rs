//! Node identity and VirtualMachine ownership.

use std::collections::BTreeMap;

use api::capw::{MachineVolume, WCPMachine};
use api::names::{self, annotation};
use api::vmop::VirtualMachine;
use uuid::Uuid;

use crate::error::InvalidInput;
use crate::upstream::{NameAvailability, claim};

/// A node's identity in vCenter and in Cluster API.
pub struct NodeIdentity {
    /// The UUID as vCenter writes it: lowercase, with hyphens.
    pub uuid: String,
    /// The providerID as in the WCPMachine spec. Cluster API compares it with the Node's providerID, character by character.
    pub provider_id: String,
}

impl NodeIdentity {
    /// Returns the identity that has this UUID.
    pub fn of(uuid: Uuid) -> Self {
        let uuid = uuid.hyphenated().to_string();
        Self { provider_id: names::provider_id(&uuid), uuid }
    }
}

/// Returns the identity in the spec, or `None` if it isn't set yet. Fails if the providerID doesn't contain a UUID.
pub fn identity(wcp_machine: &WCPMachine) -> Result<Option<NodeIdentity>, InvalidInput> {
    let Some(own) = &wcp_machine.spec.provider_id else { return Ok(None) };
    let uuid = names::uuid_of(own).and_then(|uuid| Uuid::try_parse(uuid).ok());
    let uuid = uuid.ok_or_else(|| InvalidInput::ProviderId(own.clone()))?;
    Ok(Some(NodeIdentity { provider_id: own.clone(), ..NodeIdentity::of(uuid) }))
}

/// Returns whether the VirtualMachine with the machine's name belongs to this WCPMachine.
///
/// A VirtualMachine without a controller belongs to it if both UUIDs match the WCPMachine's identity. Other changes don't
/// matter: admission allows only privileged users to set these fields and spec.providerID.
pub fn whose(wcp_machine: &WCPMachine, vm: Option<&VirtualMachine>) -> NameAvailability {
    claim(wcp_machine, vm, |vm| {
        let own = identity(wcp_machine).ok().flatten();
        own.is_some_and(|own| {
            vm.spec.bios_uuid.as_ref() == Some(&own.uuid) && vm.spec.instance_uuid.as_ref() == Some(&own.uuid)
        })
    })
}

/// Returns true if an additional disk is a PersistentVolumeClaim, not one of the VM's own disks.
pub fn is_claimed(volume: &MachineVolume) -> bool {
    volume.unit_number.is_none()
}

/// Returns the claim name for an additional disk.
pub fn claim_name(machine: &str, volume: &MachineVolume) -> String {
    format!("{machine}-{}", volume.name)
}

/// Returns the annotation that keeps `clusterctl move` from moving a machine with claims. The move doesn't include claims:
/// Kubernetes would delete them and their disks in the old management cluster.
pub fn move_block(wcp_machine: &WCPMachine) -> BTreeMap<&'static str, &'static str> {
    let claimed = wcp_machine.spec.volumes.iter().any(is_claimed);
    claimed.then_some((annotation::BLOCK_MOVE, "")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_whose_disks_are_claims_do_not_move() {
        let with = |unit_number| {
            let mut machine = WCPMachine::default();
            machine.spec.volumes = vec![MachineVolume { unit_number, ..MachineVolume::default() }];
            move_block(&machine)
        };
        assert_eq!(with(None), [("clusterctl.cluster.x-k8s.io/block-move", "")].into());
        assert!(with(Some(1)).is_empty());
    }
}
