//! Whose an address is that several guests report.
//!
//! In a range that the administrator has given to guests, a guest may report any address, another VM's too. The first that
//! had it keeps it: the status of a VirtualMachine records its addresses, and keeps them while its guest reports none (as it
//! does while it restarts). A guest that reports only addresses of other VMs has left its own: after a DHCP server has
//! exchanged the leases of several VMs, each of them reports the address that the next one had. A VM that vCenter lost has no guest.

use std::net::IpAddr;
use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::caches::held;

/// The addresses that a guest reports, by whose they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Those of its VM.
    pub own: Vec<IpAddr>,
    /// What its user is shown of one that is another VM's, where none is left.
    pub conflict: Option<String>,
}

/// Returns the addresses that no other VM can use while this VM's guest reports no address.
///
/// `own` are the VM's present endpoint addresses. `has_left` is true if the VM does not use its last addresses any more: its guest reports
/// only addresses of other VMs, or vCenter lost the VM. They are released, and the other VMs keep theirs.
pub fn kept(old: &VirtualMachineStatus, own: &[String], has_left: bool) -> Vec<String> {
    if !own.is_empty() || has_left {
        return Vec::new();
    }
    let last = if old.endpoint_addresses.is_empty() { &old.kept_addresses } else { &old.endpoint_addresses };
    last.clone()
}

/// Separates the addresses of `vm` from those of other VMs. `holders` returns the VMs that have an address, `is_assigned` is true
/// if the network provider assigned the address to that VM.
///
/// Any number of VMs can report the same address, so `holders` is lazy: the search stops at the first VM that had it earlier.
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
            Some(holder) => drop(claims.conflict.get_or_insert_with(|| conflict(vm, &holder, ip))),
        }
    }
    if !claims.own.is_empty() {
        claims.conflict = None;
    }
    claims
}

/// Of two that have an address, and got it from no network provider, the older object is taken to have been first.
fn age(vm: &VirtualMachine) -> (Option<&Time>, Option<&str>) {
    (vm.metadata.creation_timestamp.as_ref(), vm.metadata.uid.as_deref())
}

fn is_same(one: &VirtualMachine, other: &VirtualMachine) -> bool {
    (&one.metadata.namespace, &one.metadata.name) == (&other.metadata.namespace, &other.metadata.name)
}

const NOT_USED: &str = "The address gets no traffic here and is not probed";

/// Users learn no names of other namespaces.
fn conflict(vm: &VirtualMachine, holder: &VirtualMachine, ip: IpAddr) -> String {
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
