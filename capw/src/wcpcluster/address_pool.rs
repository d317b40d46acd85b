//! Explains why an IPAddressClaim doesn't get an address. The in-cluster IPAM provider of Cluster API doesn't set a condition on
//! a claim that it can't fulfill, so capw reads the state of the pool.

use api::capi::{IPAM_GROUP, IpAddressClaim};
use api::capw::WCPCluster;
use api::ipam::{GlobalInClusterIpPool, InClusterIpPool, InClusterIpPoolStatus};
use kit::controller::controller_of;
use kit::index::{Index, key};
use kit::optional::Optional;
use kit::watch::Watchable;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::caches::Caches;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolState {
    /// The pool has free addresses, or belongs to another IPAM provider.
    #[default]
    Usable,
    /// The API server doesn't serve the kind.
    NotServed,
    /// The pool doesn't exist.
    Missing,
    /// The provider hasn't set the pool's status.
    NotRead,
    /// All addresses are in use.
    Full {
        /// The number of addresses in use.
        used: i64,
    },
}

/// Returns the state of the claim's pool.
pub fn state(claim: &IpAddressClaim, caches: &Caches) -> PoolState {
    let pool = &claim.spec.pool_ref;
    let namespace = claim.namespace();
    if pool.api_group != IPAM_GROUP {
        PoolState::Usable
    } else if pool.kind == InClusterIpPool::kind(&()) {
        state_in(&caches.pools, namespace.as_deref(), &pool.name, |pool| pool.status.as_ref())
    } else if pool.kind == GlobalInClusterIpPool::kind(&()) {
        state_in(&caches.global_pools, None, &pool.name, |pool| pool.status.as_ref())
    } else {
        PoolState::Usable
    }
}

fn state_in<K: Watchable>(
    pools: &Optional<K>,
    namespace: Option<&str>,
    name: &str,
    status: impl Fn(&K) -> Option<&InClusterIpPoolStatus>,
) -> PoolState {
    if !pools.is_served() {
        return PoolState::NotServed;
    }
    let Some(pool) = pools.cache().get(namespace, name) else { return PoolState::Missing };
    match status(&pool).and_then(|status| status.ip_addresses.as_ref()) {
        None => PoolState::NotRead,
        Some(addresses) if addresses.free <= 0 => PoolState::Full { used: addresses.used },
        Some(_) => PoolState::Usable,
    }
}

/// Returns the index key for the pool that a claim waits for, or an empty list if the claim already has an address.
pub fn awaited(claim: &IpAddressClaim) -> Vec<String> {
    let has_address = claim.status.as_ref().is_some_and(|status| status.address_ref.is_some());
    let pool = &claim.spec.pool_ref;
    let is_global = pool.kind == GlobalInClusterIpPool::kind(&());
    let namespace = claim.namespace().filter(|_| !is_global);
    if has_address { Vec::new() } else { vec![of_pool(&pool.kind, namespace.as_deref(), &pool.name)] }
}

/// Returns the WCPClusters whose claims wait for an address from this pool.
pub fn waiting<K: Resource<DynamicType = ()>>(
    pool: &K,
    claims: &Index<IpAddressClaim>,
) -> Vec<ObjectRef<WCPCluster>> {
    let of_pool = of_pool(&K::kind(&()), pool.meta().namespace.as_deref(), &pool.name_any());
    claims.objects(&of_pool).iter().filter_map(|claim| controller_of(&**claim)).collect()
}

fn of_pool(kind: &str, namespace: Option<&str>, name: &str) -> String {
    format!("{kind} {}", key(namespace, name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::capi::{IpAddressClaimPoolRef, IpAddressClaimStatusAddressRef};
    use api::ipam::{InClusterIpPoolSpec, InClusterIpPoolStatusAddresses};
    use kit::watch::Cache;

    use super::*;
    use crate::fixtures::no_caches;

    fn claim(group: &str, kind: &str) -> IpAddressClaim {
        let mut claim = IpAddressClaim::default();
        claim.metadata.namespace = Some("ben-test".to_owned());
        claim.spec.pool_ref =
            IpAddressClaimPoolRef { api_group: group.into(), kind: kind.into(), name: "vips".into() };
        claim
    }

    fn served(free: Option<i64>) -> Caches {
        let mut pool = InClusterIpPool::new("vips", InClusterIpPoolSpec::default());
        pool.metadata.namespace = Some("ben-test".to_owned());
        let addresses = free.map(|free| InClusterIpPoolStatusAddresses { total: 9, used: 9 - free, free });
        pool.status = Some(InClusterIpPoolStatus { ip_addresses: addresses });
        Caches { pools: Optional::served(Cache::filled([pool])), ..no_caches() }
    }

    #[test]
    fn a_pool_says_why_it_gives_no_address() {
        let ours = claim(IPAM_GROUP, "InClusterIPPool");
        assert_eq!(state(&ours, &no_caches()), PoolState::NotServed);
        let empty = Caches { pools: Optional::served(Cache::new(Arc::default()).0), ..no_caches() };
        assert_eq!(state(&ours, &empty), PoolState::Missing);
        for (free, expected) in [
            (None, PoolState::NotRead),
            (Some(2), PoolState::Usable),
            (Some(0), PoolState::Full { used: 9 }),
            (Some(-1), PoolState::Full { used: 10 }),
        ] {
            assert_eq!(state(&ours, &served(free)), expected, "{free:?}");
        }
        for others in [claim("ipam.example", "InClusterIPPool"), claim(IPAM_GROUP, "OtherPool")] {
            assert_eq!(state(&others, &no_caches()), PoolState::Usable);
        }
    }

    #[test]
    fn a_claim_with_an_address_awaits_no_pool() {
        let mut claim = claim(IPAM_GROUP, "InClusterIPPool");
        assert_eq!(awaited(&claim), [of_pool("InClusterIPPool", Some("ben-test"), "vips")]);
        claim.spec.pool_ref.kind = "GlobalInClusterIPPool".to_owned();
        assert_eq!(awaited(&claim), [of_pool("GlobalInClusterIPPool", None, "vips")]);
        claim.status.get_or_insert_default().address_ref = Some(IpAddressClaimStatusAddressRef::default());
        assert!(awaited(&claim).is_empty());
    }
}
