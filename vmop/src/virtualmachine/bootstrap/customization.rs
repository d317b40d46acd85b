//! What vCenter's guest customization sets up: name and addresses, by VMware Tools or by Sysprep.

use std::net::IpAddr;

use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{CustomizationAdapter, CustomizationIdentity, CustomizationSpec, FixedIpv4};

use crate::unmet::Need;
use crate::virtualmachine::bootstrap::user_data::Told;
use crate::virtualmachine::bootstrap::values::{mask, rendered};
use crate::virtualmachine::bootstrap::{Surroundings, search};
use crate::virtualmachine::nic::nic::{Addressing, Card};

/// A Linux gets its name and addresses.
pub(super) fn linux(vm: &VirtualMachine, around: &Surroundings<'_>) -> CustomizationSpec {
    let name = vm.name_any();
    let (host_name, domain) = name.split_once('.').unwrap_or((&name, ""));
    let (host_name, domain) = (host_name.to_owned(), domain.to_owned());
    let identity = CustomizationIdentity::LinuxPrep { host_name, domain };
    spec(vm, identity, around)
}

/// A Windows gets an answer file, with its templates carried out.
pub(super) fn sysprep(
    vm: &VirtualMachine,
    told: &Told,
    around: &Surroundings<'_>,
) -> Need<CustomizationSpec> {
    const KEY: &str = "unattend";
    let missing = || told.wrong(KEY, "is missing. Add Windows' answer file");
    let plain = told.plain(KEY)?.ok_or_else(missing)?;
    let answers = rendered(vm, told, around, KEY, &plain)?;
    Ok(spec(vm, CustomizationIdentity::SysprepText(answers), around))
}

fn spec(
    vm: &VirtualMachine,
    identity: CustomizationIdentity,
    around: &Surroundings<'_>,
) -> CustomizationSpec {
    let known = around.cards.iter().map(adapter);
    let others = std::iter::repeat_with(CustomizationAdapter::default);
    CustomizationSpec {
        identity,
        dns_suffixes: search(vm, around).to_vec(),
        dns_servers: around.network.nameservers.clone(),
        adapters: known.chain(others).take(around.count()).collect(),
    }
}

fn adapter(card: &Card) -> CustomizationAdapter {
    let mut adapter = CustomizationAdapter { mac: card.mac.clone(), ..CustomizationAdapter::default() };
    let Addressing::Static(addresses) = &card.addressing else { return adapter };
    for address in addresses {
        let gateway = address.gateway.map(|gateway| gateway.to_string());
        match address.ip {
            IpAddr::V4(ip) if adapter.ipv4.is_none() => {
                adapter.ipv4 = Some(FixedIpv4 {
                    address: ip.to_string(),
                    mask: mask(address.prefix),
                    gateways: gateway.into_iter().collect(),
                });
            }
            // Guest customization gives a card one IPv4 address.
            IpAddr::V4(_) => {}
            IpAddr::V6(ip) => {
                adapter.ipv6.push((ip.to_string(), address.prefix));
                adapter.gateways6.extend(gateway);
            }
        }
    }
    adapter
}
