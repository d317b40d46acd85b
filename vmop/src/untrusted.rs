//! Entry points for the fuzz program. Each parses untrusted input within the caller's budget.

use std::collections::BTreeMap;

use api::vmop::{VirtualMachine, VirtualMachineMetadata, VirtualMachineSpec};
use bounds::Budget;
use uuid::Uuid;
use vsphere::VAppProperty;

use crate::console::key::PublicKey;
use crate::image::descriptor;
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::bootstrap::compose::compose;
use crate::virtualmachine::bootstrap::data::BootstrapInput;
use crate::virtualmachine::bootstrap::user_data::user_data;
use crate::virtualmachine::identity::uuids::Identity;

/// Parses a console request's public key and encrypts a ticket with it. Errors are ignored, because the caller measures
/// only the resource use.
pub fn encrypt_for(pem: &str, budget: &Budget) {
    if let Ok(key) = PublicKey::from_pem(pem) {
        let _ = key.encrypt("wss://esx-1.example.com:443/ticket/0123456789abcdef", budget);
    }
}

/// Parses an OVF descriptor.
pub fn read_ovf(xml: &str, budget: &Budget) {
    let _ = descriptor::read(xml, budget);
}

/// Composes bootstrap data with every transport from a Secret that contains `value` under one of its keys. Returns the
/// messages that users would read.
pub fn compose_bootstrap(value: &[u8], budget: &Budget) -> Vec<String> {
    let keys = ["user-data", "metadata", "network-config", "ssh-public-keys", "unattend", "site.name"];
    let each = keys.iter().chain(&["guestinfo.metadata", "guestinfo.metadata.encoding"]);
    each.flat_map(|key| {
        let transports = ["ExtraConfig", "CloudInit", "OvfEnv", "vAppConfig", "Sysprep"];
        transports.map(|transport| compose_key(key, value, transport, budget))
    })
    .flatten()
    .collect()
}

fn compose_key(key: &str, value: &[u8], transport: &str, budget: &Budget) -> Option<String> {
    let vm_metadata = VirtualMachineMetadata {
        secret_name: Some("s".to_owned()),
        transport: Some(transport.to_owned()),
        ..VirtualMachineMetadata::default()
    };
    let spec = VirtualMachineSpec { vm_metadata: Some(vm_metadata), ..VirtualMachineSpec::default() };
    let vm = VirtualMachine::new("vm", spec);
    let data = BTreeMap::from([(key.to_owned(), value.to_vec())]);
    let property =
        VAppProperty { id: "site.name".to_owned(), user_configurable: true, ..VAppProperty::default() };
    let input = BootstrapInput {
        identity: Identity { bios: Uuid::nil(), instance: Uuid::nil() },
        nics: &[],
        present: 1,
        properties: &[property],
        defers: true,
        network: &GuestNetwork::default(),
    };
    let source = "Secret ns/s";
    let data = match user_data(&vm, source.to_owned(), data) {
        Ok(data) => data,
        Err(unmet) => return Some(unmet.message),
    };
    compose(&vm, &data, &input, budget).err().map(|error| error.into_unmet(source).message)
}
