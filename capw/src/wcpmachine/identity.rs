//! Who a node is, and which objects are a WCPMachine's own.

use std::collections::BTreeMap;

use api::capw::{MachineVolume, WCPMachine};
use api::names::{self, annotation};
use api::vmop::VirtualMachine;
use uuid::Uuid;

use crate::error::InvalidInput;
use crate::upstream::{Claim, claim};

/// Who the node is.
pub struct Identity {
    /// As vCenter writes it.
    pub uuid: String,
    /// As the WCPMachine has it: Cluster API wants to read the very same of the Node.
    pub provider_id: String,
}

impl Identity {
    /// The identity of this UUID.
    pub fn of(uuid: Uuid) -> Self {
        let uuid = uuid.hyphenated().to_string();
        Self { provider_id: names::provider_id(&uuid), uuid }
    }
}

/// The identity that the machine has, if it has one.
pub fn identity(wcp_machine: &WCPMachine) -> Result<Option<Identity>, InvalidInput> {
    let Some(own) = &wcp_machine.spec.provider_id else { return Ok(None) };
    let uuid = names::uuid_of(own).and_then(|uuid| Uuid::try_parse(uuid).ok());
    let uuid = uuid.ok_or_else(|| InvalidInput::ProviderId(own.clone()))?;
    Ok(Some(Identity { provider_id: own.clone(), ..Identity::of(uuid) }))
}

/// The owner of the virtual machine with the machine's name.
///
/// One without an owner is ours if it has our identity, both UUIDs of it, whatever else was made of it: admission lets nobody
/// give an identity, to a WCPMachine or to a virtual machine, but who may.
pub fn whose(wcp_machine: &WCPMachine, vm: Option<&VirtualMachine>) -> Claim {
    claim(wcp_machine, vm, |vm| {
        let own = identity(wcp_machine).ok().flatten();
        own.is_some_and(|own| {
            vm.spec.bios_uuid.as_ref() == Some(&own.uuid) && vm.spec.instance_uuid.as_ref() == Some(&own.uuid)
        })
    })
}

/// Whether a further disk is a claim's, and not the virtual machine's own.
pub fn is_claimed(volume: &MachineVolume) -> bool {
    volume.unit_number.is_none()
}

/// Name of the claim of a further disk.
pub fn claim_name(machine: &str, volume: &MachineVolume) -> String {
    format!("{machine}-{}", volume.name)
}

/// The annotation that keeps `clusterctl move` from a machine whose disks are claims': it does not take claims along, and Kubernetes
/// removes those that stay, with their disks.
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
