//! Requests to read the libraries before their time.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// So many reads for images that are missed has a namespace until the next read by the clock, whatever names it tries.
const READS: usize = 8;

/// Requests to read the libraries.
#[derive(Debug, Default)]
pub struct SyncRequests {
    requested: Notify,
    /// Whether the libraries were read once: before that, whoever misses something need not ask.
    begun: AtomicBool,
    /// The VMs of each namespace, by UID, and the images that they missed since the last read by the clock.
    missed: Mutex<HashMap<String, HashSet<(String, String)>>>,
}

impl SyncRequests {
    /// Has the libraries read soon.
    pub fn request(&self) {
        self.requested.notify_one();
    }

    /// A VM misses an image: that is worth one read, however often it is found missing, and few for all VMs of a namespace.
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

    /// Resolves when a read is requested, or was since the last one.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// What was asked for so far is read now.
    pub(super) fn begin(&self) {
        let _ = self.requested.notified().now_or_never();
        self.begun.store(true, Ordering::Release);
    }

    /// The clock's time has come: whoever still misses something may ask again.
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
