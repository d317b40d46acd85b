//! Whose an address is that several guests report.
//!
//! In a range that the administrator has given to guests, a guest may report any address, another VM's too. The first that
//! had it keeps it: the status of a VirtualMachine records its addresses, and keeps them while its guest reports none (as it
//! does while it restarts).

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

/// The addresses that stay a VM's while its guest reports none, given what its status was.
pub fn kept(old: &VirtualMachineStatus, now: &[String]) -> Vec<String> {
    if !now.is_empty() {
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

/// Users learn no names of other namespaces.
fn conflict(vm: &VirtualMachine, holder: &VirtualMachine, ip: IpAddr) -> String {
    let whose = if holder.metadata.namespace == vm.metadata.namespace {
        format!("VirtualMachine {}", holder.name_any())
    } else {
        "a VirtualMachine of another namespace".to_owned()
    };
    format!(
        "The guest reports the address {ip}, which {whose} already uses. The address gets no traffic here and is not probed. Give the guest another address"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vm(namespace: &str, name: &str, created: &str, addresses: &[&str]) -> VirtualMachine {
        serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": name, "uid": name, "creationTimestamp": created },
            "spec": { "imageName": "i", "className": "c" },
            "status": { "endpointAddresses": addresses },
        }))
        .unwrap()
    }

    fn divided(vm: &VirtualMachine, others: &[(&VirtualMachine, bool)], assigned: &[&str]) -> Claims {
        let reported = vec!["10.1.0.9".parse().unwrap()];
        let assigned: Vec<IpAddr> = assigned.iter().map(|text| text.parse().unwrap()).collect();
        let holders = |ip: &str| {
            let ip = ip.to_owned();
            let holding = others.iter().filter(move |(other, _)| held(other).contains(&ip));
            holding.map(|(other, _)| Arc::new((*other).clone()))
        };
        let is_assigned = |vm: &VirtualMachine, _| {
            others.iter().any(|(other, assigned)| *assigned && other.metadata.uid == vm.metadata.uid)
        };
        divide(vm, reported, &assigned, holders, is_assigned)
    }

    #[test]
    fn an_address_stays_with_the_vm_that_had_it_first() {
        let first = vm("ns", "young", "2026-01-02T00:00:00Z", &["10.1.0.9"]);
        let second = vm("ns", "old", "2026-01-01T00:00:00Z", &[]);
        assert_eq!(divided(&first, &[(&second, false)], &[]).own.len(), 1);
        let claims = divided(&second, &[(&first, false)], &[]);
        assert!(claims.own.is_empty());
        assert!(claims.conflict.unwrap().contains("which VirtualMachine young already uses"));
        let both = vm("ns", "old", "2026-01-01T00:00:00Z", &["10.1.0.9"]);
        let claims = divided(&both, &[(&first, false)], &[]);
        assert_eq!(claims.own.len(), 1, "of two that have it the older object wins");
        assert!(divided(&first, &[(&both, false)], &[]).own.is_empty());
    }

    #[test]
    fn an_address_of_the_network_provider_is_nobody_elses() {
        let claimant = vm("ns", "a", "2026-01-01T00:00:00Z", &["10.1.0.9"]);
        let assigned = vm("ns", "b", "2026-01-02T00:00:00Z", &["10.1.0.9"]);
        assert_eq!(divided(&assigned, &[(&claimant, false)], &["10.1.0.9"]).own.len(), 1);
        assert!(divided(&claimant, &[(&assigned, true)], &[]).own.is_empty());
    }

    #[test]
    fn the_search_for_an_address_stops_at_the_first_earlier_vm() {
        let vms: Vec<_> = (0..1000)
            .map(|n| Arc::new(vm("ns", &format!("vm-{n:04}"), "2026-01-01T00:00:00Z", &["10.1.0.9"])))
            .collect();
        let seen = std::cell::Cell::new(0);
        for vm in &vms[1..] {
            let holders = |_: &str| vms.iter().inspect(|_| seen.set(seen.get() + 1)).cloned();
            let claims = divide(vm, vec!["10.1.0.9".parse().unwrap()], &[], holders, |_, _| false);
            assert!(claims.own.is_empty());
        }
        assert_eq!(seen.get(), 999);
    }

    #[test]
    fn a_conflict_names_no_vm_of_another_namespace() {
        let first = vm("theirs", "secret", "2026-01-01T00:00:00Z", &["10.1.0.9"]);
        let second = vm("ns", "b", "2026-01-02T00:00:00Z", &[]);
        let message = divided(&second, &[(&first, false)], &[]).conflict.unwrap();
        assert!(message.contains("of another namespace"), "{message}");
        assert!(!message.contains("secret") && !message.contains("theirs"), "{message}");
    }

    #[test]
    fn an_address_is_kept_while_the_guest_reports_none_and_free_once_it_reports_another() {
        let mut status = VirtualMachineStatus {
            endpoint_addresses: vec!["10.1.0.9".to_owned()],
            ..VirtualMachineStatus::default()
        };
        status.kept_addresses = kept(&status, &[]);
        status.endpoint_addresses.clear();
        assert_eq!(status.kept_addresses, ["10.1.0.9"]);
        assert_eq!(kept(&status, &[]), ["10.1.0.9"], "however long that lasts");
        let mut off = vm("ns", "a", "2026-01-02T00:00:00Z", &[]);
        off.status = Some(status.clone());
        let other = vm("ns", "b", "2026-01-01T00:00:00Z", &[]);
        assert!(divided(&other, &[(&off, false)], &[]).own.is_empty());
        assert!(kept(&status, &["10.1.0.8".to_owned()]).is_empty());
    }
}
