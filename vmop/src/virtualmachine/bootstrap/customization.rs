//! vCenter guest customization: the guest's name and addresses, through VMware Tools or Sysprep.

use std::net::IpAddr;

use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{CustomizationAdapter, CustomizationIdentity, CustomizationSpec, FixedIpv4};

use super::data::{BootstrapInput, search_domains};
use super::user_data::Composed;
use super::values::{Renderer, mask};
use crate::virtualmachine::nic::adapter::{Addressing, Nic};

/// Returns the customization for Linux, which sets the name and addresses.
pub(super) fn customize_linux(vm: &VirtualMachine, input: &BootstrapInput<'_>) -> CustomizationSpec {
    let name = vm.name_any();
    let (host_name, domain) = name.split_once('.').unwrap_or((&name, ""));
    let (host_name, domain) = (host_name.to_owned(), domain.to_owned());
    let identity = CustomizationIdentity::LinuxPrep { host_name, domain };
    spec(vm, identity, input)
}

/// The key in the Secret or ConfigMap that contains the Windows answer file.
pub(super) const UNATTEND: &str = "unattend";

/// Returns the customization for Windows, an answer file with rendered templates.
pub(super) fn customize_windows(renderer: &Renderer<'_>) -> Composed<CustomizationSpec> {
    const KEY: &str = UNATTEND;
    let missing = || renderer.data.wrong(KEY, "is missing. Add Windows' answer file");
    let plain = renderer.data.plain(KEY, renderer.budget)?.ok_or_else(missing)?;
    let answers = renderer.render(KEY, &plain)?;
    Ok(spec(renderer.vm, CustomizationIdentity::SysprepText(answers), renderer.input))
}

fn spec(
    vm: &VirtualMachine,
    identity: CustomizationIdentity,
    input: &BootstrapInput<'_>,
) -> CustomizationSpec {
    let known = input.nics.iter().map(adapter);
    let others = std::iter::repeat_with(CustomizationAdapter::default);
    CustomizationSpec {
        identity,
        dns_suffixes: search_domains(vm, input).to_vec(),
        dns_servers: input.network.nameservers.clone(),
        adapters: known.chain(others).take(input.nic_count()).collect(),
    }
}

fn adapter(nic: &Nic) -> CustomizationAdapter {
    let mut adapter = CustomizationAdapter { mac: nic.mac.clone(), ..CustomizationAdapter::default() };
    let Addressing::Static(addresses) = &nic.addressing else { return adapter };
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
            // Guest customization supports only one IPv4 address per NIC.
            IpAddr::V4(_) => {}
            IpAddr::V6(ip) => {
                adapter.ipv6.push((ip.to_string(), address.prefix));
                adapter.gateways6.extend(gateway);
            }
        }
    }
    adapter
}
