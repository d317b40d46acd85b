//! Where disks may lie: storage policies, and the datastores that satisfy them.
//!
//! Everything here holds for a while and is read once, whoever asks; no machine costs a call.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use vsphere::{Datastore, Error, MoRef, StoragePolicy};

use super::VCenter;

/// How long vCenter's answers are relied on.
const HOLDS: Duration = Duration::from_mins(10);
/// How soon after an answer the same is asked again because something was not in it.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of a vCenter's storage.
#[derive(Default)]
pub(super) struct StorageCache {
    policies: Fresh<(), Vec<StoragePolicy>>,
    fitting: Fresh<String, HashSet<MoRef>>,
    datastores: Fresh<MoRef, Vec<Datastore>>,
}

/// Answers that hold for a while, each read once however many ask at the same time.
struct Fresh<K, V>(Mutex<HashMap<K, (Instant, Arc<V>)>>);

impl<K, V> Default for Fresh<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Fresh<K, V> {
    /// The answer, read anew if it is older than [`HOLDS`], or not `enough` and older than [`AGAIN`].
    async fn get(
        &self,
        key: K,
        enough: impl Fn(&V) -> bool,
        read: impl Future<Output = Result<V, Error>>,
    ) -> Result<Arc<V>, Error> {
        let mut held = self.0.lock().await;
        if let Some((at, value)) = held.get(&key) {
            let holds = if enough(value) { HOLDS } else { AGAIN };
            if at.elapsed() < holds {
                return Ok(Arc::clone(value));
            }
        }
        let value = Arc::new(read.await?);
        held.insert(key, (Instant::now(), Arc::clone(&value)));
        Ok(value)
    }

    async fn forget(&self) {
        self.0.lock().await.clear();
    }
}

/// How a StorageClass names its storage policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName<'a> {
    /// By its id (`storagePolicyID`).
    Id(&'a str),
    /// By its name (`storagePolicyName`).
    Name(&'a str),
}

impl PolicyName<'_> {
    fn is(self, policy: &StoragePolicy) -> bool {
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

/// Where a machine's disks go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatastoreChoice {
    /// Where its template is: nothing says otherwise.
    Any,
    /// To this datastore.
    On(MoRef),
    /// Nowhere: why, and what to do.
    Unavailable(String),
}

impl VCenter {
    /// The storage policy of that name or id.
    pub async fn storage_policy(&self, name: PolicyName<'_>) -> Result<Option<StoragePolicy>, Error> {
        let among = |policies: &Vec<StoragePolicy>| policies.iter().any(|policy| name.is(policy));
        let policies = self.storage.policies.get((), among, self.client.storage_policies()).await?;
        Ok(policies.iter().find(|policy| name.is(policy)).cloned())
    }

    /// The datastore of a machine with that `policy`, in the cluster of `pool`.
    ///
    /// The configured one where there is one; else, for a policy, one of those that satisfy it, and
    /// where there are zones one of the cluster's own:
    /// always the same for the same `machine`, and the more often the more room it has.
    pub async fn datastore_for(
        &self,
        machine: &str,
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
        let fitting = match policy {
            Some(policy) => {
                let read = self.client.compatible_datastores(&policy.id);
                let known = self.storage.fitting.get(policy.id.clone(), |known| !known.is_empty(), read);
                Some(known.await?)
            }
            None => None,
        };
        match (configured, policy, &fitting) {
            (Some(configured), Some(policy), Some(fitting)) if !fitting.contains(&configured) => {
                return Ok(DatastoreChoice::Unavailable(format!(
                    "The configured datastore {} does not satisfy storage policy {:?}. Use another storage class, or another datastore in the provider configuration",
                    self.settings.datastore.as_deref().unwrap_or_default(),
                    policy.name
                )));
            }
            (Some(configured), ..) => return Ok(DatastoreChoice::On(configured)),
            // In one cluster the template's datastore does; in several each needs one of its own.
            (None, None, _) if !zoned => return Ok(DatastoreChoice::Any),
            _ => {}
        }
        let fitting = fitting.as_deref();
        let cluster = self.cluster(pool).await?;
        let usable = |datastores: &Vec<Datastore>| chosen(machine, datastores, fitting).is_some();
        let read = self.client.datastores(&cluster);
        let datastores = self.storage.datastores.get(cluster.clone(), usable, read).await?;
        Ok(chosen(machine, &datastores, fitting).cloned().map_or_else(
            || {
                DatastoreChoice::Unavailable(format!(
                    "No datastore of cluster {} is accessible{}. Give the cluster one, or use another storage class",
                    cluster.id(),
                    policy.map_or_else(String::new, |policy| format!(" and satisfies storage policy {:?}", policy.name))
                ))
            },
            DatastoreChoice::On,
        ))
    }

    /// What is known of datastores and policies is asked anew.
    pub async fn forget_storage(&self) {
        self.storage.fitting.forget().await;
        self.storage.datastores.forget().await;
    }

    fn no_such_datastore(&self) -> String {
        let name = self.settings.datastore.as_deref().unwrap_or_default();
        let address = self.settings.address();
        format!(
            "vCenter {address} has no datastore {name} in its datacenter. Create it there, or name another"
        )
    }
}

/// One of the datastores that can be used: the choice is the machine's own, weighed by the room there is.
///
/// Rendezvous hashing: a burst of machines spreads, nobody counts, and a machine's choice changes
/// only when a datastore comes, goes, or has half or twice the room.
fn chosen<'a>(
    machine: &str,
    datastores: &'a [Datastore],
    fitting: Option<&HashSet<MoRef>>,
) -> Option<&'a MoRef> {
    let usable = datastores.iter().filter(|store| {
        store.accessible
            && store.normal
            && store.free > 0
            && fitting.is_none_or(|fitting| fitting.contains(&store.moref))
    });
    let far = |store: &Datastore| draw(machine, store.moref.id()) / 2f64.powi(room(store));
    usable.min_by(|a, b| far(a).total_cmp(&far(b))).map(|store| &store.moref)
}

/// The room in powers of two.
fn room(store: &Datastore) -> i32 {
    i32::try_from(store.free.ilog2()).unwrap_or(0)
}

/// A number that is drawn once and for all for a machine and a datastore, by an exponential distribution.
fn draw(machine: &str, datastore: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    (machine, datastore).hash(&mut hasher);
    let upper = u32::try_from(hasher.finish() >> 32).unwrap_or(0);
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
            .filter(|name| chosen(name, datastores, Some(&fitting)).is_some_and(|one| one.id() == id))
            .count()
    }

    #[test]
    fn machines_spread_by_the_room_there_is() {
        let stores = [store("a", 100), store("b", 100), store("c", 1000)];
        let (a, b, c) = (share(&stores, "a"), share(&stores, "b"), share(&stores, "c"));
        assert!(a > 50 && b > 50 && c > 700 && a + b + c == 1000, "{a} {b} {c}");
    }

    #[test]
    fn a_choice_holds_while_other_datastores_come_and_go() {
        let all = [store("a", 100), store("b", 100), store("c", 100)];
        let fitting: HashSet<_> = all.iter().map(|store| store.moref.clone()).collect();
        for n in 0..100 {
            let name = format!("ns/vm-{n}");
            let first = chosen(&name, &all, Some(&fitting)).unwrap();
            let left: Vec<_> = all.iter().filter(|store| store.moref.id() != "c").cloned().collect();
            if first.id() != "c" {
                assert_eq!(chosen(&name, &left, Some(&fitting)), Some(first));
            }
        }
    }

    #[test]
    fn what_does_not_fit_or_can_not_be_used_is_passed_over() {
        let mut stores = [store("a", 1000), store("b", 1000), store("c", 1000), store("d", 1)];
        stores[0].accessible = false;
        stores[1].normal = false;
        let fitting = HashSet::from(["a", "b", "d"].map(MoRef::datastore));
        assert_eq!(chosen("ns/vm", &stores, Some(&fitting)), Some(&MoRef::datastore("d")));
        assert_eq!(chosen("ns/vm", &stores, Some(&HashSet::new())), None);
    }
}
