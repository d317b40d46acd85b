//! What templates of bootstrap data can refer to, and the functions that they call.

use std::net::{IpAddr, Ipv4Addr};

use api::vmop::VirtualMachine;
use serde_json::{Map, Value, json};

use super::data::BootstrapInput;
use super::user_data::UserData;
use crate::unmet::Need;
use crate::virtualmachine::nic::adapter::{Addressing, Nic, prefix_of};
use gotemplate::{Functions, SPARSE, Template, exactly};

/// The text with its templates carried out; a `\{` stands for a brace.
pub(super) fn rendered(
    vm: &VirtualMachine,
    data: &UserData,
    input: &BootstrapInput<'_>,
    key: &str,
    text: &str,
) -> Need<String> {
    let wrong = |error: gotemplate::Error| {
        data.wrong(key, &format!("is a template that can't be carried out, {error}. Mend it"))
    };
    let template = Template::parse(text).map_err(wrong)?;
    let result = if template.has_actions() {
        let values = template_values(vm, input);
        template.render(text, &values, &Net(&values["V1alpha1"]["Net"])).map_err(wrong)?
    } else {
        text.to_owned()
    };
    Ok(result.replace("\\{", "{").replace("\\}", "}"))
}

/// A mask of so many bits, as numbers with dots.
pub(super) fn mask(prefix: u8) -> String {
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    Ipv4Addr::from(bits).to_string()
}

fn template_values(vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Value {
    let devices: Vec<_> = input.nics.iter().map(device).collect();
    let net = json!({ "Devices": devices, "Nameservers": input.network.nameservers });
    json!({ "V1alpha1": { "Net": net, "VM": object(vm) } })
}

fn device(nic: &Nic) -> Value {
    let addresses = match &nic.addressing {
        Addressing::Static(addresses) => addresses.as_slice(),
        Addressing::Dhcp | Addressing::Unaddressed => &[],
    };
    let gateway = addresses.iter().find(|address| address.ip.is_ipv4()).and_then(|address| address.gateway);
    let mut device = json!({
        "Gateway4": gateway.map(|gateway| gateway.to_string()).unwrap_or_default(),
        "IPAddresses": addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    // What vCenter is still to choose is no field: a template that needs it fails rather than lies.
    if let Some(mac) = &nic.mac {
        device["MacAddress"] = mac.replace(':', "-").into();
    }
    device
}

/// The VM's object as Go sees it: metadata's fields are the object's own too.
fn object(vm: &VirtualMachine) -> Value {
    let sparse = |value: Value| match value {
        Value::Object(mut map) => {
            map.insert(SPARSE.to_owned(), true.into());
            Value::Object(map)
        }
        other => other,
    };
    let json = |value: serde_json::Result<Value>| sparse(value.unwrap_or_default());
    let meta = json(serde_json::to_value(&vm.metadata));
    let mut object = meta.as_object().cloned().unwrap_or_else(Map::new);
    object.insert("Spec".to_owned(), json(serde_json::to_value(&vm.spec)));
    object.insert("Status".to_owned(), json(serde_json::to_value(vm.status.clone().unwrap_or_default())));
    object.insert("ObjectMeta".to_owned(), meta);
    object.into()
}

/// vm-operator's functions, on the data's `Net`.
struct Net<'a>(&'a Value);

type Called = Result<Value, String>;

impl Functions for Net<'_> {
    fn call(&self, name: &str, args: &[Value]) -> Option<Called> {
        let with = |count: usize| exactly(args, count);
        Some(match name.strip_prefix("V1alpha1_")? {
            "FirstIP" => with(0).and_then(|()| self.address(0)),
            "FirstNicMacAddr" => with(0).and_then(|()| self.mac()),
            "FirstIPFromNIC" => with(1).and_then(|()| self.address(number(&args[0])?)),
            "IPsFromNIC" => with(1).and_then(|()| Ok(self.device(number(&args[0])?)?["IPAddresses"].clone())),
            "FormatIP" => with(2).and_then(|()| format_ip(text(&args[0])?, text(&args[1])?)),
            "IP" => with(1).and_then(|()| with_class(text(&args[0])?)),
            "SubnetMask" => with(1).and_then(|()| subnet_mask(text(&args[0])?)),
            "FormatNameservers" => {
                with(2).and_then(|()| self.nameservers(integer(&args[0])?, text(&args[1])?))
            }
            _ => return None,
        })
    }
}

impl Net<'_> {
    fn device(&self, at: usize) -> Result<&Value, String> {
        let devices = self.0["Devices"].as_array().map(Vec::as_slice).unwrap_or_default();
        devices
            .get(at)
            .ok_or_else(|| format!("there is no network adapter {at}: there are {}", devices.len()))
    }

    fn address(&self, at: usize) -> Called {
        let first = self.device(at)?["IPAddresses"].get(0).cloned();
        first.ok_or_else(|| format!("network adapter {at} has no address from the network provider"))
    }

    fn mac(&self) -> Called {
        let mac = self.device(0)?.get("MacAddress").cloned();
        mac.ok_or_else(|| {
            "network adapter 0 has no MAC from the network provider; vCenter chooses it later".into()
        })
    }

    fn nameservers(&self, count: i64, delimiter: &str) -> Called {
        let all: Vec<_> =
            self.0["Nameservers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if all.is_empty() {
            return Err("there are no nameservers in ConfigMap vmoperator-network-config".to_owned());
        }
        let count = usize::try_from(count).unwrap_or(all.len()).min(all.len());
        Ok(all[..count].join(delimiter).into())
    }
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("{value} is no string"))
}

fn integer(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("{value} is no whole number"))
}

fn number(value: &Value) -> Result<usize, String> {
    usize::try_from(integer(value)?).map_err(|_| format!("there is no network adapter {value}"))
}

fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is no IP address"))
}

/// An address with its prefix length, such as `10.0.0.5/24`.
fn cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let bad = || format!("{text:?} is no address with a prefix length");
    let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
    let address = ip(address).map_err(|_| bad())?;
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest(address)).ok_or_else(bad)?;
    Ok((address, prefix))
}

fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with another mask: `/24`, `255.255.255.0`, or none.
fn format_ip(address: &str, mask: &str) -> Called {
    let address = cidr(address).map(|(address, _)| address).or_else(|_| ip(address))?;
    if mask.is_empty() {
        return Ok(address.to_string().into());
    }
    let prefix = match mask.strip_prefix('/') {
        Some(_) => cidr(&format!("{address}{mask}"))?.1,
        None => prefix_of(mask).ok_or_else(|| format!("{mask:?} is no mask"))?,
    };
    if prefix > longest(address) {
        return Err(format!("{mask:?} is no mask of {address}"));
    }
    Ok(format!("{address}/{prefix}").into())
}

/// The address with the mask of its class, as networks once had.
fn with_class(address: &str) -> Called {
    let prefix = match ip(address)? {
        IpAddr::V4(ip) => match ip.octets()[0] {
            0..=127 => 8,
            128..=191 => 16,
            _ => 24,
        },
        IpAddr::V6(_) => return Err(format!("{address:?} is no IPv4 address")),
    };
    Ok(format!("{address}/{prefix}").into())
}

fn subnet_mask(address: &str) -> Called {
    match cidr(address)? {
        (IpAddr::V4(_), prefix) => Ok(mask(prefix).into()),
        (IpAddr::V6(_), _) => Err(format!("{address:?} is no IPv4 address")),
    }
}
