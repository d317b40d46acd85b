//! Decides which VM owns an address that several guests report.
//!
//! A guest may report any address in the ranges that the administrator assigned to guests, even another VM's. The first VM that
//! had the address keeps it: its status records the addresses, and keeps them while the guest doesn't report any, such as
//! during a restart. A guest that reports only addresses that belong to other VMs has released its own: after a DHCP server
//! exchanged the leases of several VMs, each VM reports an address that another VM had. A VM that vCenter lost releases its
//! addresses too.

use std::net::IpAddr;
use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::caches::held;

/// The addresses that a guest reports, after the ownership decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The VM's own addresses.
    pub own: Vec<IpAddr>,
    /// A message for the user if all reported addresses belong to other VMs.
    pub conflict: Option<String>,
}

/// Returns the addresses that the VM keeps while its guest doesn't report any, so that other VMs can't use them.
///
/// `own` contains the VM's current endpoint addresses. `has_left` is true if the VM no longer uses its last addresses, because
/// its guest reports only other VMs' addresses or because vCenter lost the VM. In that case, the last addresses are released.
pub fn list_kept_addresses(old: &VirtualMachineStatus, own: &[String], has_left: bool) -> Vec<String> {
    if !own.is_empty() || has_left {
        return Vec::new();
    }
    let last = if old.endpoint_addresses.is_empty() { &old.kept_addresses } else { &old.endpoint_addresses };
    last.clone()
}

/// Separates the VM's own addresses from other VMs' addresses. `holders` returns the VMs that have an address, and
/// `is_assigned` returns true if the network provider assigned the address to that VM.
///
/// Any number of VMs can report the same address, so `holders` is lazy: the search stops at the first VM with a better claim.
pub fn divide<H: Iterator<Item = Arc<VirtualMachine>>>(
    vm: &VirtualMachine,
    reported: Vec<IpAddr>,
    assigned: &[IpAddr],
    holders: impl Fn(&str) -> H,
    is_assigned: impl Fn(&VirtualMachine, IpAddr) -> bool,
) -> Claims {
    let mut claims = Claims::default();
    for ip in reported {
        let had_it = (!assigned.contains(&ip)).then(|| {
            let text = ip.to_string();
            let has_it = held(vm).contains(&text);
            let is_first = |other: &Arc<VirtualMachine>| {
                !is_same(other, vm) && (!has_it || age(other) < age(vm) || is_assigned(other, ip))
            };
            holders(&text).find(is_first)
        });
        match had_it.flatten() {
            None => claims.own.push(ip),
            Some(holder) => drop(claims.conflict.get_or_insert_with(|| describe_conflict(vm, &holder, ip))),
        }
    }
    if !claims.own.is_empty() {
        claims.conflict = None;
    }
    claims
}

/// Returns a sort key by age. If two VMs have an address that isn't assigned, the older VirtualMachine is assumed to have had
/// it first.
fn age(vm: &VirtualMachine) -> (Option<&Time>, Option<&str>) {
    (vm.metadata.creation_timestamp.as_ref(), vm.metadata.uid.as_deref())
}

fn is_same(one: &VirtualMachine, other: &VirtualMachine) -> bool {
    (&one.metadata.namespace, &one.metadata.name) == (&other.metadata.namespace, &other.metadata.name)
}

const NOT_USED: &str = "The address gets no traffic here and is not probed";

/// Returns the message about a conflict. It doesn't reveal names from other namespaces.
fn describe_conflict(vm: &VirtualMachine, holder: &VirtualMachine, ip: IpAddr) -> String {
    if holder.metadata.namespace != vm.metadata.namespace {
        return format!(
            "The guest reports the address {ip}, which a VirtualMachine of another namespace already uses. {NOT_USED}. Give the guest another address"
        );
    }
    let name = holder.name_any();
    let uses_it =
        holder.status.as_ref().is_some_and(|status| status.endpoint_addresses.contains(&ip.to_string()));
    if uses_it {
        format!(
            "The guest reports the address {ip}, which VirtualMachine {name} already uses. {NOT_USED}. Give the guest another address"
        )
    } else {
        format!(
            "The guest reports the address {ip}, which VirtualMachine {name} had last and keeps while its guest reports no address. {NOT_USED}. Start or delete VirtualMachine {name}, or give the guest another address"
        )
    }
}

#[cfg(test)]
mod tests;
