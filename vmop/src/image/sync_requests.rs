//! Requests to sync the images early.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The maximum number of syncs that one namespace's missing images can trigger per sync period.
const READS: usize = 8;

/// Requests to sync the images.
#[derive(Debug, Default)]
pub struct SyncRequests {
    requested: Notify,
    /// True after the first sync began. Missing images don't trigger a sync before that.
    begun: AtomicBool,
    /// By namespace: the VM UIDs and missing images that triggered a sync in this period.
    missed: Mutex<HashMap<String, HashSet<(String, String)>>>,
}

impl SyncRequests {
    /// Requests a sync.
    pub fn request(&self) {
        self.requested.notify_one();
    }

    /// Requests a sync because a VM refers to a missing image: once per VM and image, and limited per namespace. `vm` is the
    /// VM's UID. Ignored before the first sync.
    pub fn request_missing(&self, namespace: &str, vm: &str, image: &str) {
        let new = || {
            let mut missed = self.missed.lock();
            let missed = missed.entry(namespace.to_owned()).or_default();
            missed.len() < READS && missed.insert((vm.to_owned(), image.to_owned()))
        };
        if self.begun.load(Ordering::Acquire) && new() {
            self.request();
        }
    }

    /// Waits for a request. Returns at once if a sync was requested since the last sync began.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// Marks all requests so far as served, because a sync begins.
    pub(super) fn begin(&self) {
        let _ = self.requested.notified().now_or_never();
        self.begun.store(true, Ordering::Release);
    }

    /// Starts a new sync period, in which missing images can trigger syncs again.
    pub(super) fn forget(&self) {
        self.missed.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_that_misses_an_image_asks_once() {
        let requests = SyncRequests::default();
        let requested = || requests.requested().now_or_never().is_some();
        requests.request_missing("ns", "a", "photon");
        assert!(!requested(), "the first read comes anyway");
        requests.begin();
        requests.request_missing("ns", "a", "photon");
        assert!(requested());
        requests.request_missing("ns", "a", "photon");
        assert!(!requested(), "it was read for");
        requests.request_missing("ns", "b", "photon");
        assert!(requested(), "another VM, later");
        requests.forget();
        requests.request_missing("ns", "a", "photon");
        assert!(requested());
        for at in 0..100 {
            requests.request_missing("ns", "a", &format!("x{at}"));
            requests.request_missing("ns", &format!("vm{at}"), "x");
        }
        assert!(requested() && !requested());
        requests.request_missing("ns", "a", "one more");
        assert!(!requested(), "the namespace had its reads");
        requests.request_missing("other", "a", "x");
        assert!(requested(), "another namespace");
        requests.request();
        requests.begin();
        assert!(!requested(), "a read answers all that asked before it");
    }
}
