//! Values and functions that bootstrap data templates can use.

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr};

use api::vmop::VirtualMachine;
use bounds::Confidential;
use gotemplate::{FunctionError, Functions, RenderFailure, SPARSE, Template, cost, exactly};
use kit::bounded::{Budget, Exceeded};
use serde_json::{Map, Value, json};

use super::data::BootstrapInput;
use super::user_data::{Composed, UserData};
use crate::virtualmachine::nic::adapter::{Addressing, Nic, prefix_of};

const NOT_IPV4: &str = "an argument is not an IPv4 address";

/// Renders the templates in one VM's bootstrap data.
pub(super) struct Renderer<'a> {
    pub(super) vm: &'a VirtualMachine,
    pub(super) data: &'a UserData,
    pub(super) input: &'a BootstrapInput<'a>,
    pub(super) budget: &'a Budget,
    /// The values that templates can use. They are computed for the first template that needs them.
    values: OnceCell<Value>,
}

impl<'a> Renderer<'a> {
    /// Creates a renderer. The template values are computed later.
    pub(super) fn new(
        vm: &'a VirtualMachine,
        data: &'a UserData,
        input: &'a BootstrapInput<'a>,
        budget: &'a Budget,
    ) -> Self {
        Self { vm, data, input, budget, values: OnceCell::new() }
    }

    /// Returns a key's value with its templates rendered, and with the escaped braces `\{` and `\}` replaced by braces.
    pub(super) fn render(&self, key: &str, text: &Confidential<String>) -> Composed<String> {
        let text = text.expose().as_str();
        let exceeded = |exceeded| self.data.exceeded(key, exceeded);
        let wrong = |error: gotemplate::Error| {
            let what = || format!("is a template that can't be rendered, {error}. Correct it");
            error.exceeded.map_or_else(|| self.data.wrong(key, &what()).into(), exceeded)
        };
        let template = Template::parse(text, self.budget).map_err(wrong)?;
        let result = if template.has_actions() {
            let values = self.values().map_err(exceeded)?;
            let functions = Net(&values["V1alpha1"]["Net"]);
            template.render(text, values, &functions, self.budget).map_err(wrong)?
        } else {
            text.to_owned()
        };
        self.budget.spend(result.len().saturating_mul(2)).map_err(exceeded)?;
        Ok(result.replace("\\{", "{").replace("\\}", "}"))
    }

    fn values(&self) -> Result<&Value, Exceeded> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        // The values can be built before they count against the budget, because the API server limits the object's size.
        let values = template_values(self.vm, self.input);
        self.budget.spend(cost(&values))?;
        Ok(self.values.get_or_init(|| values))
    }
}

/// Formats the IPv4 mask for a prefix length in dotted notation.
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
    // Without a MAC, the field is missing, so that a template that uses it fails instead of getting a wrong value.
    if let Some(mac) = &nic.mac {
        device["MacAddress"] = mac.replace(':', "-").into();
    }
    device
}

/// Returns the VirtualMachine as Go templates see it: the metadata fields are also fields of the object itself.
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

/// vm-operator's template functions. They read the template value `V1alpha1.Net`.
struct Net<'a>(&'a Value);

type Called = Result<Value, FunctionError>;

impl Functions for Net<'_> {
    fn call(&self, name: &str, args: &[&Value], budget: &Budget) -> Option<Called> {
        let with = |count: usize| exactly(args, count);
        Some(match name.strip_prefix("V1alpha1_")? {
            "FirstIP" => with(0).and_then(|()| self.address(0)),
            "FirstNicMacAddr" => with(0).and_then(|()| self.mac()),
            "FirstIPFromNIC" => with(1).and_then(|()| self.address(number(args[0])?)),
            "IPsFromNIC" => with(1).and_then(|()| {
                let addresses = &self.device(number(args[0])?)?["IPAddresses"];
                budget.spend(cost(addresses))?;
                Ok(addresses.clone())
            }),
            "FormatIP" => with(2).and_then(|()| format_ip(text(args[0])?, text(args[1])?)),
            "IP" => with(1).and_then(|()| with_class(text(args[0])?)),
            "SubnetMask" => with(1).and_then(|()| subnet_mask(text(args[0])?)),
            "FormatNameservers" => {
                with(2).and_then(|()| self.nameservers(integer(args[0])?, text(args[1])?, budget))
            }
            _ => return None,
        })
    }
}

impl Net<'_> {
    fn device(&self, at: usize) -> Result<&Value, RenderFailure> {
        let devices = self.0["Devices"].as_array().map(Vec::as_slice).unwrap_or_default();
        let missing = "the network adapter does not exist; the VM has {}";
        devices.get(at).ok_or_else(|| RenderFailure::with_counts(missing, &[devices.len()]))
    }

    fn address(&self, at: usize) -> Called {
        let first = self.device(at)?["IPAddresses"].get(0).cloned();
        Ok(first.ok_or("the network adapter has no address from the network provider")?)
    }

    fn mac(&self) -> Called {
        let mac = self.device(0)?.get("MacAddress").cloned();
        let missing = "network adapter 0 has no MAC from the network provider; vCenter chooses it later";
        Ok(mac.ok_or(missing)?)
    }

    fn nameservers(&self, count: i64, delimiter: &str, budget: &Budget) -> Called {
        let all: Vec<_> =
            self.0["Nameservers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if all.is_empty() {
            return Err("ConfigMap vmoperator-network-config has no nameservers".into());
        }
        let chosen = &all[..usize::try_from(count).unwrap_or(all.len()).min(all.len())];
        let length = chosen.iter().map(|server| server.len().saturating_add(delimiter.len()));
        budget.spend(length.fold(0, usize::saturating_add))?;
        Ok(chosen.join(delimiter).into())
    }
}

fn text(value: &Value) -> Result<&str, &'static str> {
    value.as_str().ok_or("an argument is not a string")
}

fn integer(value: &Value) -> Result<i64, &'static str> {
    value.as_i64().ok_or("an argument is not a whole number")
}

fn number(value: &Value) -> Result<usize, &'static str> {
    usize::try_from(integer(value)?).map_err(|_| "a network adapter has no negative number")
}

fn ip(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "an argument is not an IP address")
}

/// Parses an address with a prefix length, such as `10.0.0.5/24`. The error is a message.
fn cidr(text: &str) -> Result<(IpAddr, u8), &'static str> {
    let bad = "an argument is not an address with a prefix length";
    let (address, prefix) = text.split_once('/').ok_or(bad)?;
    let address = ip(address).map_err(|_| bad)?;
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest(address)).ok_or(bad)?;
    Ok((address, prefix))
}

fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Replaces an address's prefix length with `mask`: a prefix length such as `/24`, a mask such as `255.255.255.0`, or an empty
/// string, which removes the prefix length.
fn format_ip(address: &str, mask: &str) -> Called {
    let address = cidr(address).map(|(address, _)| address).or_else(|_| ip(address))?;
    if mask.is_empty() {
        return Ok(address.to_string().into());
    }
    let prefix = match mask.strip_prefix('/') {
        Some(_) => cidr(&format!("{address}{mask}"))?.1,
        None => prefix_of(mask).ok_or("an argument is not a mask")?,
    };
    if prefix > longest(address) {
        return Err("the mask is longer than the address".into());
    }
    Ok(format!("{address}/{prefix}").into())
}

/// Appends the prefix length of the historical IPv4 address class.
fn with_class(address: &str) -> Called {
    let prefix = match ip(address)? {
        IpAddr::V4(ip) => match ip.octets()[0] {
            0..=127 => 8,
            128..=191 => 16,
            _ => 24,
        },
        IpAddr::V6(_) => return Err(NOT_IPV4.into()),
    };
    Ok(format!("{address}/{prefix}").into())
}

fn subnet_mask(address: &str) -> Called {
    match cidr(address)? {
        (IpAddr::V4(_), prefix) => Ok(mask(prefix).into()),
        (IpAddr::V6(_), _) => Err(NOT_IPV4.into()),
    }
}
