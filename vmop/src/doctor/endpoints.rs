//! Checks that other installations' VMs in vCenter don't use addresses from the control plane address pools.

use std::fmt::Debug;
use std::net::IpAddr;

use api::ipam::{GlobalInClusterIpPool, InClusterIpPool};
use ipnet::IpNet;
use kit::diagnosis::Diagnosis;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::checks::ENDPOINTS;
use super::site::{ConnectedSite, list_served};
use crate::vcenter::drawn_stack_id;
use crate::vcenter::endpoints::{EndpointRecord, read_endpoints};
use crate::vcenter::settings::ProviderSettings;

/// The maximum number of VMs that a finding names.
const MAX_NAMES: usize = 5;

/// A control plane address pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPool {
    /// The pool's kind and name, for messages.
    pub name: String,
    /// Addresses, ranges (`first-last`) and CIDRs.
    pub addresses: Vec<String>,
}

/// Checks the control plane address pools in the cluster.
pub async fn check(site: &ConnectedSite<'_>, operator_namespace: &str) -> Diagnosis {
    let pools = match pools(site.kube).await {
        Ok(pools) => pools,
        Err(unread) => return unread,
    };
    match find_foreign(&pools, site.kube, site.settings, site.vcenter, operator_namespace).await {
        Ok(foreign) if foreign.is_empty() => ENDPOINTS.ok(format!("{} pool(s)", pools.len())),
        Ok(foreign) => ENDPOINTS.warning(
            describe(&foreign),
            "New clusters skip these addresses. Remove them from the pool. If a cluster here has one of them, delete the newer of both clusters. If a VM is a leftover of a deleted installation, delete it in vCenter",
        ),
        Err(skipped) => skipped,
    }
}

/// Checks pools that are about to be applied.
pub async fn check_new(
    pools: &[AddressPool],
    kube: &Client,
    settings: &ProviderSettings,
    vcenter: &vsphere::Client,
    operator_namespace: &str,
) -> Diagnosis {
    match find_foreign(pools, kube, settings, vcenter, operator_namespace).await {
        Ok(foreign) if foreign.is_empty() => ENDPOINTS.ok(format!("{} pool(s)", pools.len())),
        Ok(foreign) => ENDPOINTS.warning(
            describe(&foreign),
            "New clusters skip these addresses. Give the pool addresses that no other management cluster assigns. If a VM is a leftover of a deleted installation, delete it in vCenter. If this management cluster is to take over that installation's clusters, set the same StackID",
        ),
        Err(skipped) => skipped,
    }
}

/// Returns the pools in the cluster. Returns an empty list if their kinds aren't served.
async fn pools(kube: &Client) -> Result<Vec<AddressPool>, Diagnosis> {
    let global = list::<GlobalInClusterIpPool>(kube, |pool| &pool.spec.addresses).await?;
    let namespaced = list::<InClusterIpPool>(kube, |pool| &pool.spec.addresses).await?;
    Ok([global, namespaced].concat())
}

async fn list<K>(kube: &Client, addresses: impl Fn(&K) -> &Vec<String>) -> Result<Vec<AddressPool>, Diagnosis>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let pools = ENDPOINTS.read(&K::plural(&()), list_served::<K>(kube).await)?;
    let described = pools.iter().map(|pool| AddressPool {
        name: format!("{} {}", K::kind(&()), pool.name_any()),
        addresses: addresses(pool).clone(),
    });
    Ok(described.collect())
}

/// Returns the VMs of other installations that have an address from a pool, each with the pool's name.
async fn find_foreign(
    pools: &[AddressPool],
    kube: &Client,
    settings: &ProviderSettings,
    vcenter: &vsphere::Client,
    operator_namespace: &str,
) -> Result<Vec<(EndpointRecord, String)>, Diagnosis> {
    if pools.is_empty() {
        return Ok(Vec::new());
    }
    let own = match settings.stack.as_str() {
        "" => ENDPOINTS.read("ConfigMaps", drawn_stack_id(kube, operator_namespace).await)?,
        configured => Some(configured.to_owned()),
    };
    let records = read_endpoints(vcenter).await;
    let records = records.map_err(|error| ENDPOINTS.skipped(format!("{error}. {}", error.advice())))?;
    Ok(foreign(pools, own.as_deref(), records))
}

/// Returns other installations' records whose address is in a pool. `own` is `None` if this installation doesn't have an id
/// yet, and therefore no VMs.
fn foreign(
    pools: &[AddressPool],
    own: Option<&str>,
    records: Vec<EndpointRecord>,
) -> Vec<(EndpointRecord, String)> {
    let others = records.into_iter().filter(|record| own != Some(&record.stack));
    let in_pool = others.filter_map(|record| {
        let address: IpAddr = record.host.parse().ok()?;
        let pool = pools.iter().find(|pool| pool.addresses.iter().any(|range| contains(range, address)))?;
        Some((record, pool.name.clone()))
    });
    in_pool.collect()
}

/// Returns true if `range` (an address, a range `first-last` or a CIDR) contains the address.
fn contains(range: &str, address: IpAddr) -> bool {
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    if let Some((first, last)) = range.split_once('-') {
        let of_family = |bound: &IpAddr| bound.is_ipv4() == address.is_ipv4();
        let bounds = (parse(first).filter(of_family), parse(last).filter(of_family));
        return matches!(bounds, (Some(first), Some(last)) if (first..=last).contains(&address));
    }
    if let Ok(net) = range.trim().parse::<IpNet>() {
        return net.contains(&address);
    }
    parse(range) == Some(address)
}

fn describe(foreign: &[(EndpointRecord, String)]) -> String {
    let mut named: Vec<_> = foreign
        .iter()
        .take(MAX_NAMES)
        .map(|(record, pool)| format!("{record} has {} of {pool} as its control plane endpoint", record.host))
        .collect();
    if foreign.len() > MAX_NAMES {
        named.push(format!("{} more", foreign.len() - MAX_NAMES));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use vsphere::MoRef;

    use super::*;

    #[test]
    fn ranges_of_pools_contain_addresses() {
        let table = [
            ("10.0.0.5", "10.0.0.5", true),
            ("10.0.0.5", "10.0.0.6", false),
            ("10.0.0.5-10.0.0.9", "10.0.0.9", true),
            ("10.0.0.5 - 10.0.0.9", "10.0.0.10", false),
            ("10.0.0.0/24", "10.0.0.200", true),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("fd00::/64", "fd00::5", true),
            ("fd00::1-fd00::9", "fd00:0::5", true),
            ("10.0.0.1-10.0.0.9", "fd00::5", false),
            ("text", "10.0.0.5", false),
        ];
        for (range, address, expected) in table {
            assert_eq!(contains(range, address.parse().unwrap()), expected, "{range} {address}");
        }
    }

    #[test]
    fn a_vm_of_another_installation_with_an_address_of_a_pool_is_found() {
        let record = |stack: &str, host: &str| EndpointRecord {
            vm: ("one-cp".to_owned(), MoRef::new("VirtualMachine", "vm-7")),
            owner: "dev/one-cp".to_owned(),
            stack: stack.to_owned(),
            host: host.to_owned(),
            virtual_router: None,
        };
        let pools =
            [AddressPool { name: "Pool a".to_owned(), addresses: vec!["10.0.0.1-10.0.0.9".to_owned()] }];
        let found = |own: Option<&str>, stack: &str, host: &str| {
            let found = foreign(&pools, own, vec![record(stack, host)]);
            (!found.is_empty()).then(|| describe(&found))
        };
        let described = "VM one-cp (vm-7, of VirtualMachine dev/one-cp of installation \"s2\") has 10.0.0.5 of Pool a as its control plane endpoint";
        assert_eq!(found(Some("s1"), "s2", "10.0.0.5").as_deref(), Some(described));
        assert_eq!(found(None, "s2", "10.0.0.5").as_deref(), Some(described), "an installation without VMs");
        assert_eq!(found(Some("s2"), "s2", "10.0.0.5"), None, "its own, or one of a moved cluster");
        assert_eq!(found(Some("s1"), "s2", "10.0.0.10"), None);
        assert_eq!(found(Some("s1"), "s2", "api.example.com"), None);
        let many = foreign(&pools, None, vec![record("s2", "10.0.0.5"); 7]);
        assert!(describe(&many).ends_with(", 2 more"), "{}", describe(&many));
    }
}
