//! Cloud-init data: generated metadata, and userdata from the user.

use api::vmop::VirtualMachine;
use bounds::Confidential;
use cloudinit::{Error, METADATA, NodeMetadata, USERDATA, VALUE_LIMIT, WaitOnNetwork};
use kit::bounded::{Budget, Exceeded};
use kube::ResourceExt;
use serde_json::{Map, Value};
use vsphere::{CustomizationIdentity, CustomizationSpec, OVF_TRANSPORT_GUEST_INFO, VAppChange};

use super::data::{Bootstrap, BootstrapInput, VApp};
use super::netplan::build_network;
use super::user_data::{Composed, Uncomposed, UserData, invalid};
use crate::virtualmachine::nic::adapter::Nic;

/// The keys for userdata, in order of precedence: cloud-init's name, then Cluster API's name.
const USERDATA_KEYS: [&str; 2] = ["user-data", "value"];

/// Returns bootstrap data that cloud-init reads from guestinfo: six keys, with compressed values.
pub(super) fn build_guestinfo(
    vm: &VirtualMachine,
    data: &UserData,
    input: &BootstrapInput<'_>,
    budget: &Budget,
) -> Composed<Bootstrap> {
    let mut metadata = build_metadata(vm, data, input, budget)?;
    if metadata.redact.is_empty() {
        metadata.redact = vec!["userdata".to_owned(), "vendordata".to_owned()];
    }
    let userdata = userdata(data, budget)?.unwrap_or_default();
    let vendordata = data.plain("vendor-data", budget)?;
    let vendordata = vendordata.as_ref().map(|text| text.expose().as_bytes());
    let keys = cloudinit::encode(&metadata, userdata.expose().as_bytes(), vendordata, budget);
    let extra_config = keys.map_err(|error| match error {
        Error::Exceeded(exceeded) => exceeded.into(),
        error => Uncomposed::from(invalid(format!("{}: {error}", data.source))),
    })?;
    Ok(Bootstrap { extra_config, v_app: VApp::Removed, customization: None })
}

/// Returns bootstrap data for cloud-init through vCenter's guest customization.
pub(super) fn build_customization_data(
    vm: &VirtualMachine,
    data: &UserData,
    input: &BootstrapInput<'_>,
    budget: &Budget,
) -> Composed<Bootstrap> {
    let metadata = build_metadata(vm, data, input, budget)?.to_yaml();
    let metadata = metadata.map_err(|error| invalid(format!("{}: {error}", data.source)))?;
    budget.spend(metadata.len())?;
    let userdata = userdata(data, budget)?.map(Confidential::into_exposed);
    let identity = CustomizationIdentity::CloudinitPrep { metadata, userdata };
    let spec = CustomizationSpec {
        identity,
        dns_suffixes: Vec::new(),
        dns_servers: Vec::new(),
        adapters: Vec::new(),
    };
    let v_app = VAppChange { properties: Vec::new(), transports: vec![OVF_TRANSPORT_GUEST_INFO.into()] };
    Ok(Bootstrap { v_app: VApp::Changed(v_app), customization: Some(spec), ..Bootstrap::default() })
}

/// Copies the user's guestinfo keys. Metadata that doesn't contain a network gets the network provider's configuration. Fails
/// if there are no such keys, or if a value is longer than `VALUE_LIMIT`.
pub(super) fn copy_guestinfo(
    vm: &VirtualMachine,
    data: &UserData,
    input: &BootstrapInput<'_>,
    budget: &Budget,
) -> Composed<Bootstrap> {
    let mut bootstrap = Bootstrap::default();
    for (key, value) in data.data.iter().filter(|(key, _)| key.starts_with("guestinfo.")) {
        let length = value.expose().len();
        if length > VALUE_LIMIT {
            let what = format!("has {length} bytes, but a guest reads at most {VALUE_LIMIT}");
            return Err(data.wrong(key, &format!("{what}. Make it smaller, or compress it")).into());
        }
        let text = data.text(key, budget)?.unwrap_or_default();
        bootstrap.extra_config.insert(key.clone(), text.into_exposed());
    }
    if bootstrap.extra_config.is_empty() {
        let what = "has no key that begins with guestinfo. Add the guest's data";
        return Err(invalid(format!("{} {what}", data.source)).into());
    }
    if [METADATA, USERDATA].iter().any(|key| bootstrap.extra_config.contains_key(*key)) {
        bootstrap.v_app = VApp::Removed;
        add_network(vm, input, &mut bootstrap, budget)
            .map_err(|exceeded| data.exceeded(METADATA, exceeded))?;
    }
    Ok(bootstrap)
}

/// Adds the network to the metadata if the network provider configures a NIC, and if the metadata can be parsed and doesn't
/// contain a network yet.
fn add_network(
    vm: &VirtualMachine,
    input: &BootstrapInput<'_>,
    bootstrap: &mut Bootstrap,
    budget: &Budget,
) -> Result<(), Exceeded> {
    let keys = &mut bootstrap.extra_config;
    let Some(network) = is_given(input.nics).then(|| build_network(vm, input)).flatten() else {
        return Ok(());
    };
    let mut metadata = match cloudinit::decode_metadata(keys, budget) {
        Ok(metadata) if !metadata.other.contains_key("network") => metadata,
        Err(Error::Exceeded(exceeded)) => return Err(exceeded),
        Ok(_) | Err(_) => return Ok(()),
    };
    metadata.other.insert("network".to_owned(), network);
    match cloudinit::encode(&metadata, &[], None, budget) {
        Ok(packed) => keys.extend(packed.into_iter().filter(|(key, _)| key.starts_with(METADATA))),
        Err(Error::Exceeded(exceeded)) => return Err(exceeded),
        Err(_) => {}
    }
    Ok(())
}

/// Returns true if the network provider configures at least one of the NICs.
pub(super) fn is_given(nics: &[Nic]) -> bool {
    nics.iter().any(|nic| !nic.is_plain())
}

fn userdata(data: &UserData, budget: &Budget) -> Composed<Option<Confidential<String>>> {
    for key in USERDATA_KEYS {
        if let Some(plain) = data.plain(key, budget)? {
            return Ok(Some(plain));
        }
    }
    let others = ["metadata", "network-config", "ssh-public-keys", "vendor-data"];
    if data.data.is_empty() && data.source.is_empty() || others.iter().any(|key| data.data.contains_key(*key))
    {
        return Ok(None);
    }
    let what = "has no key user-data (nor value). Add cloud-init's userdata";
    Err(invalid(format!("{} {what}", data.source)).into())
}

/// Returns the generated metadata, in which the user's keys take precedence.
fn build_metadata(
    vm: &VirtualMachine,
    data: &UserData,
    input: &BootstrapInput<'_>,
    budget: &Budget,
) -> Composed<NodeMetadata> {
    let name = vm.name_any();
    let addressed = input.nics.iter().any(|nic| nic.addressing.has_ipv4());
    let mut ours = NodeMetadata {
        // The VirtualMachine's UID isn't suitable: it changes when the VirtualMachine is moved to another cluster.
        instance_id: data.instance_id.clone().unwrap_or_else(|| input.identity.bios.to_string()),
        local_hostname: Some(name.clone()),
        hostname: Some(name),
        // Only wait for addresses that the network provider assigned. The guest may never get other addresses.
        wait_on_network: addressed.then_some(WaitOnNetwork { ipv4: Some(true), ipv6: None }),
        ..NodeMetadata::default()
    };
    if let Some(network) = build_network(vm, input) {
        ours.other.insert("network".to_owned(), network);
    }
    if let Some(keys) = data.text("ssh-public-keys", budget)? {
        ours.other.insert("public-keys".to_owned(), keys.into_exposed().into());
    }
    if let Some(network) = mapping(data, "network-config", budget)? {
        let inner = network.get("network").cloned().unwrap_or(Value::Object(network));
        ours.other.insert("network".to_owned(), inner);
    }
    let Some(theirs) = mapping(data, "metadata", budget)? else { return Ok(ours) };
    let mut merged = match serde_json::to_value(&ours) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    merged.extend(theirs);
    // The parse error would quote the value.
    let not_metadata = "has a key whose value does not have the type that cloud-init expects. Correct it";
    Ok(serde_json::from_value(Value::Object(merged)).map_err(|_| data.wrong("metadata", not_metadata))?)
}

/// Parses a key whose value is a YAML or JSON mapping.
fn mapping(data: &UserData, key: &str, budget: &Budget) -> Composed<Option<Map<String, Value>>> {
    let Some(plain) = data.plain(key, budget)? else { return Ok(None) };
    cloudinit::mapping(plain.expose(), budget).map(Some).map_err(|error| data.refused(key, &error))
}
