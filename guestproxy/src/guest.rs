//! The state of one cluster, and the state that all clusters share.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bounds::{Lane, Turn};
use kit::guest::bounded;
use kit::share::responses::ResponseLimits;
use parking_lot::Mutex;

use crate::clusters::{Clusters, TargetCluster};
use crate::limits;
use crate::live::{CachedObjects, ObjectChange, TooMany};

/// The maximum number of paged lists in progress. A higher number means that a manager has abandoned lists, so all sizes are
/// forgotten.
const LISTS: usize = 256;
/// The minimum time between two log lines with the same reason for a cluster.
const REPEATED_AFTER: Duration = Duration::from_secs(10);

/// The state of all clusters.
pub struct ProxiedClusters {
    pub clusters: Clusters,
    live: CachedObjects,
    connections: Lane,
    large_answers: Lane,
    known: Mutex<HashMap<String, Arc<ProxiedCluster>>>,
}

/// The state of one cluster.
pub struct ProxiedCluster {
    pub target: TargetCluster,
    /// Accounts for the response bytes that the proxy itself holds.
    pub responses: ResponseLimits,
    all: Arc<ProxiedClusters>,
    /// The sizes of paged lists so far, by path.
    lists: Mutex<HashMap<String, usize>>,
    reported: Mutex<Option<(String, Instant)>>,
}

impl ProxiedClusters {
    /// Creates the state. A cluster's state is added when a manager first connects to the cluster.
    pub fn new(clusters: Clusters) -> Arc<Self> {
        Arc::new(Self {
            clusters,
            live: CachedObjects::default(),
            connections: Lane::new(limits::CONNECTIONS, limits::CONNECTIONS_OF_A_GUEST),
            large_answers: Lane::new(limits::LARGE_ANSWERS, limits::LARGE_ANSWERS_OF_A_GUEST),
            known: Mutex::default(),
        })
    }

    /// Returns the cluster whose API server is at `authority` (`HOST:PORT`), if there is one.
    pub async fn find(self: &Arc<Self>, authority: &str) -> Option<Arc<ProxiedCluster>> {
        let target = self.clusters.find(authority).await?;
        let mut known = self.known.lock();
        if let Some(guest) = known.get(&target.uid).filter(|guest| guest.target == target) {
            return Some(Arc::clone(guest));
        }
        let guest = Arc::new(ProxiedCluster {
            responses: ResponseLimits::of(&target.namespace, &target.name),
            all: Arc::clone(self),
            lists: Mutex::default(),
            reported: Mutex::default(),
            target,
        });
        known.insert(guest.target.uid.clone(), Arc::clone(&guest));
        Some(guest)
    }

    /// Forgets clusters that no longer exist.
    pub fn sweep(&self) {
        let uids = self.clusters.uids();
        let remains = |uid: &str| uids.iter().any(|known| known == uid);
        self.known.lock().retain(|uid, _| remains(uid));
        self.live.retain(remains);
    }
}

impl ProxiedCluster {
    /// Returns the maximum decoded size of a response, in bytes.
    pub fn answer_limit(&self) -> usize {
        limits::answer(self.all.clusters.machines(&self.target))
    }

    /// Acquires a slot for a connection. Returns `None` if the cluster's slots, or the slots for all clusters, are taken.
    pub fn enter(&self) -> Option<Turn> {
        self.all.connections.try_enter(&self.target.uid)
    }

    /// Waits until another large response may be forwarded.
    pub async fn wait_for_turn(&self) -> Turn {
        self.all.large_answers.enter(&self.target.uid).await
    }

    /// Returns the total size of a list's earlier pages, if this page `continues` the list. For a first page, resets the size and
    /// returns 0.
    pub fn begin_page(&self, path: &str, continues: bool) -> usize {
        let mut lists = self.lists.lock();
        if !continues {
            lists.remove(path);
        }
        lists.get(path).copied().unwrap_or_default()
    }

    /// Records a list's size, including the page that is being forwarded.
    pub fn note_page(&self, path: &str, size: usize) {
        let mut lists = self.lists.lock();
        if let Some(noted) = lists.get_mut(path) {
            *noted = size;
            return;
        }
        if lists.len() >= LISTS {
            lists.clear();
        }
        lists.insert(path.to_owned(), size);
    }

    /// Begins a watch. `sends_all` is true if the watch sends all objects first.
    ///
    /// # Errors
    /// Returns an error if an earlier watch for `path` exceeded the cluster's limit a short time ago.
    pub fn begin_watch(&self, path: &str, sends_all: bool) -> Result<(), TooMany> {
        self.all.live.begin(&self.target.uid, path, sends_all, Instant::now())
    }

    /// Counts an event of the watch for `path`. `names` are the object's namespace and name.
    ///
    /// # Errors
    /// Returns an error if the cluster has too many objects.
    pub fn count(&self, path: &str, names: (&str, &str), change: ObjectChange) -> Result<(), TooMany> {
        let allowance = limits::cached(self.all.clusters.machines(&self.target));
        self.all.live.count(&self.target.uid, path, names, change, allowance, Instant::now())
    }

    /// Logs the reason why a connection to the cluster was aborted. A repeated reason is logged at most every 10 s.
    pub fn report(&self, reason: &dyn Display) {
        let reason = bounded(&reason.to_string());
        let mut reported = self.reported.lock();
        if reported.as_ref().is_some_and(|(before, at)| *before == reason && at.elapsed() < REPEATED_AFTER) {
            return;
        }
        let TargetCluster { namespace, name, .. } = &self.target;
        tracing::warn!(namespace, name, reason, "a connection to a cluster was broken off");
        *reported = Some((reason, Instant::now()));
    }
}
