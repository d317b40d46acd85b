//! Computes defaults for VirtualMachines, as JSON patch operations. The functions perform no I/O.
//!
//! If the webhook sets the defaults, the first reconcile needn't write them before it creates the VM. If the API server ignored
//! a webhook failure, the first reconcile sets the defaults.

use api::names::{annotation, finalizer};
use api::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, POWERED_ON, VirtualMachine, VirtualMachineNetworkInterface,
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::admission::known::AdmissionSettings;
use crate::vcenter::settings::NetworkProvider;
use crate::virtualmachine::identity::uuids;
use crate::virtualmachine::power::operation::restart_now;

/// Returns the operations that set the defaults of a new VM: finalizer, UUIDs, power state, network interface. If
/// both UUIDs are missing, both are set to `drawn`.
pub fn created(vm: &VirtualMachine, settings: &AdmissionSettings, drawn: Uuid) -> Vec<Value> {
    let mut operations = Vec::new();
    let set = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    if vm.finalizers().is_empty() {
        operations.push(set("/metadata/finalizers", json!([finalizer::VIRTUAL_MACHINE])));
    } else if !vm.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE) {
        operations.push(set("/metadata/finalizers/-", json!(finalizer::VIRTUAL_MACHINE)));
    }
    // Invalid UUIDs are left for the CRD schema to reject.
    if let Ok(identity) = uuids::complete_identity(vm, drawn) {
        let missing = |uuid: &Option<String>| uuid.as_deref().is_none_or(str::is_empty);
        if missing(&vm.spec.bios_uuid) {
            operations.push(set("/spec/biosUUID", json!(identity.bios.to_string())));
        }
        if missing(&vm.spec.instance_uuid) {
            operations.push(set("/spec/instanceUUID", json!(identity.instance.to_string())));
        }
    }
    if vm.spec.power_state.as_deref().is_none_or(str::is_empty) {
        operations.push(set("/spec/powerState", json!(POWERED_ON)));
    }
    let wanted = !vm.annotations().contains_key(annotation::NO_DEFAULT_NIC);
    if let Some(nic) = default_interface(settings).filter(|_| wanted && vm.spec.network_interfaces.is_empty())
    {
        operations.push(set("/spec/networkInterfaces", json!([nic])));
    }
    operations
}

/// Returns the default interface, which is on the provider's default network, or `None` if neither a network provider nor a
/// network is configured.
fn default_interface(settings: &AdmissionSettings) -> Option<VirtualMachineNetworkInterface> {
    let of = |kind: Option<&str>, name: Option<&str>| VirtualMachineNetworkInterface {
        network_type: kind.map(str::to_owned),
        network_name: name.map(str::to_owned),
        ..VirtualMachineNetworkInterface::default()
    };
    match (settings.network_provider, settings.network.as_deref()) {
        (Some(NetworkProvider::Nsx), _) => Some(of(Some(NETWORK_TYPE_NSX_T), None)),
        (Some(NetworkProvider::Distributed), _) => Some(of(Some(NETWORK_TYPE_DISTRIBUTED), None)),
        (Some(NetworkProvider::Named), name) => Some(of(None, Some(name.unwrap_or("VM Network")))),
        (None, name) => name.map(|name| of(None, Some(name))),
    }
}

/// Returns the operations that complete an update: they replace the restart time `now` with the current time, and restore a
/// restart time or Secret name that the update removed.
pub fn updated(vm: &VirtualMachine, old: &VirtualMachine, now: Timestamp) -> Vec<Value> {
    let mut operations = Vec::new();
    let set = |path: &str, value: &str| json!({ "op": "add", "path": path, "value": value });
    let (time, before) = (vm.spec.next_restart_time.as_deref(), old.spec.next_restart_time.as_deref());
    match time.filter(|time| !time.is_empty()) {
        None => operations.extend(
            before.filter(|before| !before.is_empty()).map(|before| set("/spec/nextRestartTime", before)),
        ),
        // The validation webhook rejects `now` for a VM that is powered off.
        Some(time) if time.eq_ignore_ascii_case("now") && is_on(old) => {
            operations.push(set("/spec/nextRestartTime", &restart_now(old, now).to_string()));
        }
        Some(_) => {}
    }
    let secret = |vm: &VirtualMachine| vm.spec.vm_metadata.as_ref().and_then(|data| data.secret_name.clone());
    if vm.spec.vm_metadata.is_some()
        && secret(vm).is_none_or(|name| name.is_empty())
        && let Some(name) = secret(old).filter(|name| !name.is_empty())
    {
        operations.push(set("/spec/vmMetadata/secretName", &name));
    }
    operations
}

fn is_on(vm: &VirtualMachine) -> bool {
    vm.spec.power_state.as_deref().unwrap_or(POWERED_ON) == POWERED_ON
}
