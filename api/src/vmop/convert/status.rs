//! Converts a status between the versions. v1alpha2 has fields for all of v1alpha1.

use std::net::IpAddr;

use super::restore::stored_power_state;
use super::spec::power_state;
use crate::vmop::v1alpha2::{
    AddressStatus, InterfaceIpStatus, NetworkInterfaceStatus as ShownInterface, NetworkStatus,
    VirtualMachineStatus as Shown,
};
use crate::vmop::{NetworkInterfaceStatus, VirtualMachineStatus};

/// Converts a status to v1alpha2.
pub(super) fn show(status: VirtualMachineStatus) -> Shown {
    let VirtualMachineStatus {
        host,
        host_name,
        power_state: power,
        phase,
        conditions,
        vm_ip,
        endpoint_addresses,
        kept_addresses,
        unique_id,
        bios_uuid,
        instance_uuid,
        volumes,
        change_block_tracking,
        network_interfaces,
        zone,
        last_restart_time,
        hardware_version,
        observed_generation,
    } = status;
    let addresses = || endpoint_addresses.iter().chain(&vm_ip);
    let first = |of: fn(&IpAddr) -> bool| {
        addresses().find(|address| address.parse().is_ok_and(|address| of(&address))).cloned()
    };
    let network = NetworkStatus {
        host_name,
        interfaces: network_interfaces.into_iter().map(show_interface).collect(),
        primary_ip4: first(IpAddr::is_ipv4),
        primary_ip6: first(IpAddr::is_ipv6),
    };
    Shown {
        host,
        power_state: power.as_deref().map(power_state),
        conditions,
        network: (network != NetworkStatus::default()).then_some(network),
        unique_id,
        bios_uuid,
        instance_uuid,
        volumes,
        change_block_tracking,
        zone,
        last_restart_time,
        hardware_version,
        phase,
        vm_ip,
        endpoint_addresses,
        kept_addresses,
        observed_generation,
    }
}

/// Converts a status to v1alpha1. Primary addresses are dropped, because other fields contain them.
pub(super) fn restore(status: Shown) -> VirtualMachineStatus {
    let Shown {
        host,
        power_state,
        conditions,
        network,
        unique_id,
        bios_uuid,
        instance_uuid,
        volumes,
        change_block_tracking,
        zone,
        last_restart_time,
        hardware_version,
        phase,
        vm_ip,
        endpoint_addresses,
        kept_addresses,
        observed_generation,
    } = status;
    let NetworkStatus { host_name, interfaces, primary_ip4: _, primary_ip6: _ } = network.unwrap_or_default();
    VirtualMachineStatus {
        host,
        host_name,
        power_state: power_state.as_deref().map(stored_power_state),
        phase,
        conditions,
        vm_ip,
        endpoint_addresses,
        kept_addresses,
        unique_id,
        bios_uuid,
        instance_uuid,
        volumes,
        change_block_tracking,
        network_interfaces: interfaces.into_iter().map(restore_interface).collect(),
        zone,
        last_restart_time,
        hardware_version,
        observed_generation,
    }
}

fn show_interface(interface: NetworkInterfaceStatus) -> ShownInterface {
    let NetworkInterfaceStatus { connected, mac_address, ip_addresses } = interface;
    let addresses = ip_addresses.into_iter().map(|address| AddressStatus { address }).collect();
    let ip = InterfaceIpStatus { addresses, mac_addr: mac_address };
    ShownInterface { ip: (ip != InterfaceIpStatus::default()).then_some(ip), connected }
}

fn restore_interface(interface: ShownInterface) -> NetworkInterfaceStatus {
    let ShownInterface { ip, connected } = interface;
    let InterfaceIpStatus { addresses, mac_addr } = ip.unwrap_or_default();
    let ip_addresses = addresses.into_iter().map(|address| address.address).collect();
    NetworkInterfaceStatus { connected, mac_address: mac_addr, ip_addresses }
}
