//! What cloud-init is told: metadata that we build, userdata that the user gives.

use api::vmop::VirtualMachine;
use cloudinit::{METADATA, Metadata, USERDATA, VALUE_LIMIT, WaitOnNetwork};
use kube::ResourceExt;
use serde_json::{Map, Value};
use vsphere::{CustomizationIdentity, CustomizationSpec, OVF_TRANSPORT_GUEST_INFO, VAppConfigSpec};

use crate::unmet::Need;
use crate::virtualmachine::bootstrap::netplan::network;
use crate::virtualmachine::bootstrap::user_data::Told;
use crate::virtualmachine::bootstrap::{Bootstrap, Surroundings, VApp};
use crate::virtualmachine::nic::nic::Addressing;

/// Keys of the userdata: cloud-init's name, and Cluster API's.
const USERDATA_KEYS: [&str; 2] = ["user-data", "value"];

/// Cloud-init by guestinfo: six keys, packed.
pub(super) fn guestinfo(vm: &VirtualMachine, told: &Told, around: &Surroundings<'_>) -> Need<Bootstrap> {
    let mut metadata = metadata(vm, told, around)?;
    if metadata.redact.is_empty() {
        metadata.redact = vec!["userdata".to_owned(), "vendordata".to_owned()];
    }
    let userdata = userdata(told)?.unwrap_or_default();
    let vendordata = told.plain("vendor-data")?;
    let vendordata = vendordata.as_deref().map(str::as_bytes);
    let keys = cloudinit::encode(&metadata, userdata.as_bytes(), vendordata);
    let extra_config =
        keys.map_err(|error| super::user_data::invalid(format!("{}: {error}", told.source)))?;
    Ok(Bootstrap { extra_config, v_app: VApp::Removed, customization: None })
}

/// Cloud-init by vCenter's guest customization.
pub(super) fn customised(vm: &VirtualMachine, told: &Told, around: &Surroundings<'_>) -> Need<Bootstrap> {
    let metadata = metadata(vm, told, around)?.to_yaml();
    let metadata =
        metadata.map_err(|error| super::user_data::invalid(format!("{}: {error}", told.source)))?;
    let identity = CustomizationIdentity::CloudinitPrep { metadata, userdata: userdata(told)? };
    let spec = CustomizationSpec {
        identity,
        dns_suffixes: Vec::new(),
        dns_servers: Vec::new(),
        adapters: Vec::new(),
    };
    let v_app = VAppConfigSpec { properties: Vec::new(), transports: vec![OVF_TRANSPORT_GUEST_INFO.into()] };
    Ok(Bootstrap { v_app: VApp::Changed(v_app), customization: Some(spec), ..Bootstrap::default() })
}

/// The keys of guestinfo as they are; of metadata without a network, with what the network provider gave.
pub(super) fn verbatim(vm: &VirtualMachine, told: &Told, around: &Surroundings<'_>) -> Need<Bootstrap> {
    let mut bootstrap = Bootstrap::default();
    for key in told.data.keys().filter(|key| key.starts_with("guestinfo.")) {
        let value = told.text(key)?.unwrap_or_default();
        if value.len() > VALUE_LIMIT {
            let what = format!("has {} bytes, and a guest reads at most {VALUE_LIMIT}", value.len());
            return Err(told.wrong(key, &format!("{what}. Make it smaller, or compress it")));
        }
        bootstrap.extra_config.insert(key.clone(), value);
    }
    if bootstrap.extra_config.is_empty() {
        let what = "has no key that begins with guestinfo. Add the guest's data";
        return Err(super::user_data::invalid(format!("{} {what}", told.source)));
    }
    if [METADATA, USERDATA].iter().any(|key| bootstrap.extra_config.contains_key(*key)) {
        bootstrap.v_app = VApp::Removed;
        add_network(vm, around, &mut bootstrap);
    }
    Ok(bootstrap)
}

/// Metadata that can't be read, or says what network there is, stays as it is.
fn add_network(vm: &VirtualMachine, around: &Surroundings<'_>, bootstrap: &mut Bootstrap) {
    let keys = &mut bootstrap.extra_config;
    let Some(network) = given(around).then(|| network(vm, around)).flatten() else { return };
    let read = cloudinit::decode(keys).ok().and_then(|decoded| decoded.metadata().ok());
    let Some(mut metadata) = read.filter(|metadata| !metadata.other.contains_key("network")) else { return };
    metadata.other.insert("network".to_owned(), network);
    if let Ok(packed) = cloudinit::encode(&metadata, &[], None) {
        keys.extend(packed.into_iter().filter(|(key, _)| key.starts_with(METADATA)));
    }
}

/// Whether the network provider says something about a card.
fn given(around: &Surroundings<'_>) -> bool {
    around.cards.iter().any(|card| card.mac.is_some() || card.addressing != Addressing::Dhcp)
}

fn userdata(told: &Told) -> Need<Option<String>> {
    for key in USERDATA_KEYS {
        if let Some(plain) = told.plain(key)? {
            return Ok(Some(plain));
        }
    }
    let others = ["metadata", "network-config", "ssh-public-keys", "vendor-data"];
    if told.data.is_empty() && told.source.is_empty() || others.iter().any(|key| told.data.contains_key(*key))
    {
        return Ok(None);
    }
    let what = "has no key user-data (nor value). Add cloud-init's userdata";
    Err(super::user_data::invalid(format!("{} {what}", told.source)))
}

/// Our own metadata; every key that the user gives wins.
fn metadata(vm: &VirtualMachine, told: &Told, around: &Surroundings<'_>) -> Need<Metadata> {
    let name = vm.name_any();
    let addressed = around.cards.iter().any(|card| card.addressing.has_ipv4());
    let mut ours = Metadata {
        // Not the object's UID: it changes when the object is moved to another cluster.
        instance_id: told.instance_id.clone().unwrap_or_else(|| around.identity.bios.to_string()),
        local_hostname: Some(name.clone()),
        hostname: Some(name),
        // An address that the provider gave comes for sure; one that nobody promises is not waited for.
        wait_on_network: addressed.then_some(WaitOnNetwork { ipv4: Some(true), ipv6: None }),
        ..Metadata::default()
    };
    if let Some(network) = network(vm, around) {
        ours.other.insert("network".to_owned(), network);
    }
    if let Some(keys) = told.text("ssh-public-keys")? {
        ours.other.insert("public-keys".to_owned(), keys.into());
    }
    if let Some(network) = mapping(told, "network-config")? {
        let inner = network.get("network").cloned().unwrap_or(Value::Object(network));
        ours.other.insert("network".to_owned(), inner);
    }
    let Some(theirs) = mapping(told, "metadata")? else { return Ok(ours) };
    let mut merged = match serde_json::to_value(&ours) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    merged.extend(theirs);
    serde_json::from_value(Value::Object(merged))
        .map_err(|error| told.wrong("metadata", &format!("is no metadata: {error}. Mend it")))
}

/// A key that holds a mapping in YAML or JSON.
fn mapping(told: &Told, key: &str) -> Need<Option<Map<String, Value>>> {
    let Some(plain) = told.plain(key)? else { return Ok(None) };
    cloudinit::mapping(&plain).map(Some).map_err(|why| told.wrong(key, &format!("{why}. Mend it")))
}
