//! Whose an address is that several guests report.
//!
//! In a range that the administrator has given to guests, a guest may report any address, another VM's too. The first that
//! had it keeps it: the status of a VirtualMachine records its addresses, and keeps them while its guest reports none (as it
//! does while it restarts).

use std::net::IpAddr;
use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineStatus};
use kit::index::key;
use kube::ResourceExt;

use crate::caches::held;

/// A VirtualMachine that has an address.
pub struct Holder {
    /// The object.
    pub vm: Arc<VirtualMachine>,
    /// Whether its network provider assigned it the address.
    pub assigned: bool,
}

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

/// Tells the addresses that are `vm`'s from those of other VMs, of which `holders` has those that have an address.
pub fn divide(
    vm: &VirtualMachine,
    reported: Vec<IpAddr>,
    assigned: &[IpAddr],
    holders: impl Fn(&str) -> Vec<Holder>,
) -> Claims {
    let mut claims = Claims::default();
    for ip in reported {
        let text = ip.to_string();
        let mut others = holders(&text).into_iter().filter(|holder| name(&holder.vm) != name(vm));
        let first =
            if assigned.contains(&ip) { None } else { others.find(|other| is_first(other, vm, &text)) };
        match first {
            None => claims.own.push(ip),
            Some(holder) => drop(claims.conflict.get_or_insert_with(|| conflict(vm, &holder.vm, ip))),
        }
    }
    if !claims.own.is_empty() {
        claims.conflict = None;
    }
    claims
}

/// Whether `other` had the address before `vm`. If both have it, the older object is taken to have been first.
fn is_first(other: &Holder, vm: &VirtualMachine, address: &str) -> bool {
    let age = |vm: &VirtualMachine| (vm.creation_timestamp(), vm.uid());
    other.assigned || !held(vm).iter().any(|own| own == address) || age(&other.vm) < age(vm)
}

fn name(vm: &VirtualMachine) -> String {
    key(vm.metadata.namespace.as_deref(), &vm.name_any())
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
        divide(vm, reported, &assigned, |ip| {
            let holding = others.iter().filter(|(other, _)| held(other).iter().any(|held| held == ip));
            holding
                .map(|(other, assigned)| Holder { vm: Arc::new((*other).clone()), assigned: *assigned })
                .collect()
        })
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
        assert_eq!(
            divided(&both, &[(&first, false)], &[]).own.len(),
            1,
            "of two that have it the older object wins"
        );
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
