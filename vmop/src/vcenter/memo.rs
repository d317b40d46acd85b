//! What was read from a vCenter and need not be read again. No calls; those are made by who asks.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OnceCell};
use vsphere::{Datastore, Devices, Error, MoRef, Network, StoragePolicy};

/// How long vCenter's answers are relied on.
const HOLDS: Duration = Duration::from_mins(10);
/// How soon after an answer the same is asked again because something was not in it.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of a vCenter's storage.
#[derive(Default)]
pub struct StorageCache {
    pub policies: Fresh<(), Vec<StoragePolicy>>,
    pub fitting: Fresh<String, HashSet<MoRef>>,
    pub datastores: Fresh<MoRef, Vec<Datastore>>,
}

/// Answers that are relied on for a while, each read once however many ask at the same time.
pub struct Fresh<K, V>(Mutex<HashMap<K, (Instant, Arc<V>)>>);

impl<K, V> Default for Fresh<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Fresh<K, V> {
    /// The answer, read anew if it is older than [`HOLDS`], or not `enough` and older than [`AGAIN`].
    pub async fn get(
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

    pub async fn forget(&self) {
        self.0.lock().await.clear();
    }
}

/// What does not change while a connection lasts.
#[derive(Default)]
pub struct LookupCache {
    /// The configured datastore.
    pub datastore: OnceCell<Option<MoRef>>,
    /// All networks of the datacenter.
    pub networks: Mutex<Vec<Network>>,
    /// The cluster of each resource pool.
    pub clusters: Mutex<HashMap<MoRef, MoRef>>,
    /// The hosts of each cluster.
    pub hosts: Mutex<HashMap<MoRef, Vec<Host>>>,
}

/// A host of a cluster.
#[derive(Clone, Debug)]
pub struct Host {
    /// The host.
    pub moref: MoRef,
    /// Its name.
    pub name: String,
    /// The clock of its processors.
    pub megahertz: Option<i64>,
    /// The threads of its processors.
    pub threads: Option<i64>,
}

/// The devices of VMs, each of one version of the VM's settings.
#[derive(Default)]
pub struct DeviceCache(pub parking_lot::Mutex<HashMap<MoRef, Arc<Devices>>>);
