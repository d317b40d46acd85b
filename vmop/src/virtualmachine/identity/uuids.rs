//! The UUIDs of a VM, which are persisted in its VirtualMachine before anything is created in vCenter.

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use uuid::Uuid;
use vsphere::Vm;

use crate::virtualmachine::error::Blocked;

/// The UUIDs of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The BIOS UUID, as in a node's `vsphere://<uuid>`.
    pub bios: Uuid,
    /// The instance UUID, which is unique in vCenter.
    pub instance: Uuid,
}

impl Identity {
    /// Returns true if one of the UUIDs matches. vCenter may change one of them, but never both.
    pub fn is_of(self, vsphere_vm: &Vm) -> bool {
        vsphere_vm.uuid == Some(self.bios) || vsphere_vm.instance_uuid == Some(self.instance)
    }
}

/// Returns the UUIDs in the spec, or `None` if one is missing. Fails if one isn't a UUID.
pub fn parse_identity(vm: &VirtualMachine) -> Result<Option<Identity>, Blocked> {
    let parsed = |field: &str, text: &Option<String>| match text.as_deref().filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => Uuid::parse_str(text).map(Some).map_err(|_| {
            Blocked::Spec(format!("spec.{field} {text:?} is not a UUID. Correct it, or leave it out"))
        }),
    };
    let bios = parsed("biosUUID", &vm.spec.bios_uuid)?;
    let instance = parsed("instanceUUID", &vm.spec.instance_uuid)?;
    Ok(bios.zip(instance).map(|(bios, instance)| Identity { bios, instance }))
}

/// Returns the UUIDs of a VirtualMachine. A missing UUID is copied from the other field. If both are missing, both UUIDs are
/// `drawn`.
pub fn complete_identity(vm: &VirtualMachine, drawn: Uuid) -> Result<Identity, Blocked> {
    let mut filled = vm.clone();
    let given =
        [&vm.spec.bios_uuid, &vm.spec.instance_uuid].into_iter().flatten().find(|text| !text.is_empty());
    let text = given.cloned().unwrap_or_else(|| drawn.to_string());
    for uuid in [&mut filled.spec.bios_uuid, &mut filled.spec.instance_uuid] {
        if uuid.as_deref().is_none_or(str::is_empty) {
            *uuid = Some(text.clone());
        }
    }
    let spec = || Blocked::Spec("spec.biosUUID and spec.instanceUUID are missing".to_owned());
    parse_identity(&filled)?.ok_or_else(spec)
}

/// Returns true if the VM was ever created. The annotation is kept when the VirtualMachine is moved to another cluster, but the
/// status isn't.
pub fn existed(vm: &VirtualMachine) -> bool {
    vm.annotations().contains_key(annotation::FIRST_BOOT_DONE)
        || vm.status.as_ref().is_some_and(|status| status.unique_id.is_some())
}

/// Returns the state of the VirtualMachine that decides what is done to its VM. The state must be current before an
/// irreversible action. The tuple contains the generation, true if the VirtualMachine is being deleted, and true if its VM was
/// ever created.
pub fn decisive_state(vm: &VirtualMachine) -> (Option<i64>, bool, bool) {
    (vm.metadata.generation, vm.metadata.deletion_timestamp.is_some(), existed(vm))
}
