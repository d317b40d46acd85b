//! Caches for data from vCenter. They don't call vCenter: callers pass the future that reads the data.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OnceCell};
use vsphere::{Datastore, Devices, Error, MoRef, Network, StoragePolicy};

/// The maximum age for a cached value.
const HOLDS: Duration = Duration::from_mins(10);
/// The maximum age for a cached value that lacks what the caller needs.
const AGAIN: Duration = Duration::from_secs(10);

/// Cached storage policies and datastores.
#[derive(Default)]
pub struct StorageCache {
    pub policies: Fresh<(), Vec<StoragePolicy>>,
    pub fitting: Fresh<String, HashSet<MoRef>>,
    pub datastores: Fresh<MoRef, Vec<Datastore>>,
}

/// Cached values with a maximum age. Concurrent callers share one read.
pub struct Fresh<K, V>(Mutex<HashMap<K, (Instant, Arc<V>)>>);

impl<K, V> Default for Fresh<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Fresh<K, V> {
    /// Returns the cached value. Reads the value again if it is older than [`HOLDS`], or if `enough` returns false for it and
    /// it is older than [`AGAIN`].
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

/// Data that doesn't change during a connection.
#[derive(Default)]
pub struct LookupCache {
    /// The configured datastore.
    pub datastore: OnceCell<Option<MoRef>>,
    /// All networks in the datacenter.
    pub networks: Mutex<Vec<Network>>,
    /// The cluster of each resource pool.
    pub clusters: Mutex<HashMap<MoRef, MoRef>>,
    /// The hosts of each cluster.
    pub hosts: Mutex<HashMap<MoRef, Vec<Host>>>,
}

/// A host in a cluster.
#[derive(Clone, Debug)]
pub struct Host {
    pub moref: MoRef,
    pub name: String,
    /// The CPU frequency in MHz.
    pub megahertz: Option<i64>,
    /// The number of CPU threads.
    pub threads: Option<i64>,
}

/// VM devices, each with the VM's configuration version.
#[derive(Default)]
pub struct DeviceCache(pub parking_lot::Mutex<HashMap<MoRef, Arc<Devices>>>);
