//! Storage policies, and the datastores that satisfy them.
//!
//! All results are cached for a while and shared, so that additional VMs don't cost additional calls.

use std::collections::HashSet;
use std::sync::Arc;

use vsphere::{Datastore, Error, MoRef, StoragePolicy};

use crate::stable_hash::stable_hash;
use crate::vcenter::connection::VCenter;

/// The reference to a storage policy in a StorageClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName<'a> {
    /// The policy id (`storagePolicyID`).
    Id(&'a str),
    /// The policy name (`storagePolicyName`).
    Name(&'a str),
}

impl PolicyName<'_> {
    /// Returns true if this refers to `policy`.
    pub fn is(self, policy: &StoragePolicy) -> bool {
        match self {
            Self::Id(id) => policy.id.eq_ignore_ascii_case(id),
            Self::Name(name) => policy.name == name,
        }
    }
}

impl std::fmt::Display for PolicyName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// The datastore for a VM's disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatastoreChoice {
    /// The template's datastore, because another one isn't required.
    Any,
    /// This datastore.
    On(MoRef),
    /// A suitable datastore doesn't exist. Contains the cause and the remedy.
    Unavailable(String),
}

impl VCenter {
    /// Returns the storage policy with that name or id, if it exists.
    pub async fn storage_policy(&self, name: PolicyName<'_>) -> Result<Option<StoragePolicy>, Error> {
        let among = |policies: &Vec<StoragePolicy>| policies.iter().any(|policy| name.is(policy));
        let policies = self.storage.policies.get((), among, self.client.list_storage_policies()).await?;
        Ok(policies.iter().find(|policy| name.is(policy)).cloned())
    }

    /// Returns the datastore for a VM with that `policy` in the cluster of `pool`.
    ///
    /// Uses the configured datastore if there is one. Otherwise, if there is a policy or `zoned` is true, chooses a
    /// datastore of the cluster that satisfies the policy. The choice is stable for the same `vm` and weighted by free
    /// space.
    pub async fn datastore_for(
        &self,
        vm: &str,
        pool: &MoRef,
        policy: Option<&StoragePolicy>,
        zoned: bool,
    ) -> Result<DatastoreChoice, Error> {
        let configured = match self.datastore().await {
            Ok(configured) => configured,
            Err(error) if error.is_not_found() => {
                return Ok(DatastoreChoice::Unavailable(self.no_such_datastore()));
            }
            Err(error) => return Err(error),
        };
        let fitting = self.fitting_datastores(policy).await?;
        match (configured, policy, &fitting) {
            (Some(configured), Some(policy), Some(fitting)) if !fitting.contains(&configured) => {
                return Ok(DatastoreChoice::Unavailable(self.configured_does_not_fit(policy)));
            }
            (Some(configured), ..) => return Ok(DatastoreChoice::On(configured)),
            // Within one cluster the template's datastore is reachable. With zones, each cluster needs its own datastore.
            (None, None, _) if !zoned => return Ok(DatastoreChoice::Any),
            _ => {}
        }
        let fitting = fitting.as_deref();
        let cluster = self.cluster(pool).await?;
        let usable = |datastores: &Vec<Datastore>| choose_datastore(vm, datastores, fitting).is_some();
        let read = self.client.list_datastores(&cluster);
        let datastores = self.storage.datastores.get(cluster.clone(), usable, read).await?;
        let chosen = choose_datastore(vm, &datastores, fitting).cloned();
        Ok(chosen
            .map_or_else(|| DatastoreChoice::Unavailable(none_fits(&cluster, policy)), DatastoreChoice::On))
    }

    /// Returns the datastore's name, as it appears in disk file paths, or `None` if the cluster of `pool` doesn't have the
    /// datastore.
    pub async fn datastore_name(&self, pool: &MoRef, datastore: &MoRef) -> Result<Option<String>, Error> {
        let cluster = self.cluster(pool).await?;
        let named = |datastores: &Vec<Datastore>| datastores.iter().any(|store| store.moref == *datastore);
        let read = self.client.list_datastores(&cluster);
        let datastores = self.storage.datastores.get(cluster.clone(), named, read).await?;
        Ok(datastores.iter().find(|store| store.moref == *datastore).map(|store| store.name.clone()))
    }

    /// Returns the datastores that satisfy the policy, or `None` without a policy.
    async fn fitting_datastores(
        &self,
        policy: Option<&StoragePolicy>,
    ) -> Result<Option<Arc<HashSet<MoRef>>>, Error> {
        let Some(policy) = policy else { return Ok(None) };
        let read = self.client.list_compatible_datastores(&policy.id);
        let known = self.storage.fitting.get(policy.id.clone(), |known| !known.is_empty(), read);
        known.await.map(Some)
    }

    /// Discards the cached datastores and their policy compatibility.
    pub async fn forget_storage(&self) {
        self.storage.fitting.forget().await;
        self.storage.datastores.forget().await;
    }

    fn configured_does_not_fit(&self, policy: &StoragePolicy) -> String {
        format!(
            "The configured datastore {} does not satisfy storage policy {:?}. Use another storage class, or another datastore in the provider configuration",
            self.settings.datastore.as_deref().unwrap_or_default(),
            policy.name
        )
    }

    fn no_such_datastore(&self) -> String {
        let name = self.settings.datastore.as_deref().unwrap_or_default();
        let address = self.settings.address();
        format!(
            "vCenter {address} has no datastore {name} in its datacenter. Create it there, or use another datastore"
        )
    }
}

fn none_fits(cluster: &MoRef, policy: Option<&StoragePolicy>) -> String {
    let satisfies =
        policy.map_or_else(String::new, |policy| format!(" and satisfies storage policy {:?}", policy.name));
    format!(
        "No datastore of cluster {} is accessible{satisfies}. Add one to the cluster, or use another storage class",
        cluster.id()
    )
}

/// Chooses a usable datastore, weighted by free space. Usable datastores are accessible, have free space, aren't in maintenance
/// mode, and are contained in `fitting` if that is given. Returns `None` if there aren't any.
///
/// Rendezvous hashing spreads a burst of VMs without a counter. A VM's choice changes only if a datastore becomes usable or
/// unusable, or if its free space crosses a power of two.
fn choose_datastore<'a>(
    vm: &str,
    datastores: &'a [Datastore],
    fitting: Option<&HashSet<MoRef>>,
) -> Option<&'a MoRef> {
    let usable = datastores.iter().filter(|store| {
        store.accessible
            && store.normal
            && store.free > 0
            && fitting.is_none_or(|fitting| fitting.contains(&store.moref))
    });
    let distance_of = |store: &Datastore| distance(vm, store.moref.id()) / 2f64.powi(log2_free(store));
    usable.min_by(|a, b| distance_of(a).total_cmp(&distance_of(b))).map(|store| &store.moref)
}

fn log2_free(store: &Datastore) -> i32 {
    i32::try_from(store.free.ilog2()).unwrap_or(0)
}

/// Returns an exponentially distributed number that is always the same for a VM and a datastore.
fn distance(vm: &str, datastore: &str) -> f64 {
    let upper = u32::try_from(stable_hash([vm, datastore]) >> 32).unwrap_or(0);
    -((f64::from(upper) + 0.5) / 2f64.powi(32)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(id: &str, free_gib: u64) -> Datastore {
        Datastore {
            moref: MoRef::datastore(id),
            name: id.to_owned(),
            free: free_gib << 30,
            accessible: true,
            normal: true,
        }
    }

    fn share(datastores: &[Datastore], id: &str) -> usize {
        let fitting = datastores.iter().map(|store| store.moref.clone()).collect();
        let names = (0..1000).map(|n| format!("ns/vm-{n}"));
        names
            .filter(|name| {
                choose_datastore(name, datastores, Some(&fitting)).is_some_and(|one| one.id() == id)
            })
            .count()
    }

    #[test]
    fn vms_spread_by_the_free_space() {
        let stores = [store("a", 100), store("b", 100), store("c", 1000)];
        let (a, b, c) = (share(&stores, "a"), share(&stores, "b"), share(&stores, "c"));
        assert!(a > 50 && b > 50 && c > 700 && a + b + c == 1000, "{a} {b} {c}");
    }

    /// Fixed values: a new toolchain must not change the choice for VMs that aren't placed yet.
    #[test]
    fn a_choice_is_the_same_for_ever() {
        let stores = ["datastore-11", "datastore-12", "datastore-13"].map(|id| store(id, 100));
        let choices = ["ns/cp-0", "ns/cp-1", "ns/worker-a", "ns/worker-b", "team/db"]
            .map(|vm| (vm, choose_datastore(vm, &stores, None).unwrap().id()));
        assert_eq!(
            choices,
            [
                ("ns/cp-0", "datastore-13"),
                ("ns/cp-1", "datastore-11"),
                ("ns/worker-a", "datastore-13"),
                ("ns/worker-b", "datastore-11"),
                ("team/db", "datastore-11"),
            ]
        );
    }

    #[test]
    fn a_choice_holds_while_other_datastores_come_and_go() {
        let all = [store("a", 100), store("b", 100), store("c", 100)];
        let fitting: HashSet<_> = all.iter().map(|store| store.moref.clone()).collect();
        for n in 0..100 {
            let name = format!("ns/vm-{n}");
            let first = choose_datastore(&name, &all, Some(&fitting)).unwrap();
            let left: Vec<_> = all.iter().filter(|store| store.moref.id() != "c").cloned().collect();
            if first.id() != "c" {
                assert_eq!(choose_datastore(&name, &left, Some(&fitting)), Some(first));
            }
        }
    }

    #[test]
    fn what_does_not_fit_or_can_not_be_used_is_passed_over() {
        let mut stores = [store("a", 1000), store("b", 1000), store("c", 1000), store("d", 1)];
        stores[0].accessible = false;
        stores[1].normal = false;
        let fitting = HashSet::from(["a", "b", "d"].map(MoRef::datastore));
        assert_eq!(choose_datastore("ns/vm", &stores, Some(&fitting)), Some(&MoRef::datastore("d")));
        assert_eq!(choose_datastore("ns/vm", &stores, Some(&HashSet::new())), None);
    }
}
