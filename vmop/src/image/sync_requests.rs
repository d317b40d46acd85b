//! SyncRequests at the libraries before their time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Asks for sync_requests at the libraries.
#[derive(Debug, Default)]
pub struct SyncRequests {
    requested: Notify,
    /// Whether the libraries were looked at once: before that, whoever misses something need not ask.
    begun: AtomicBool,
    /// The machines, by UID, and the images that they missed since the last look by the clock.
    missed: Mutex<HashSet<(String, String)>>,
}

impl SyncRequests {
    /// The libraries are looked at soon.
    pub fn request(&self) {
        self.requested.notify_one();
    }

    /// A machine misses an image: that is worth one look, however often it is found missing.
    pub fn request_missing(&self, machine: &str, image: &str) {
        let new = || self.missed.lock().insert((machine.to_owned(), image.to_owned()));
        if self.begun.load(Ordering::Acquire) && new() {
            self.request();
        }
    }

    /// Resolves when a look is asked for, or was since the last one.
    pub(super) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// What was asked for so far is looked at now.
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
    fn a_machine_that_misses_an_image_asks_once() {
        let sync_requests = SyncRequests::default();
        let requested = || sync_requests.requested().now_or_never().is_some();
        sync_requests.request_missing("a", "photon");
        assert!(!requested(), "the first look comes anyway");
        sync_requests.begin();
        sync_requests.request_missing("a", "photon");
        assert!(requested());
        sync_requests.request_missing("a", "photon");
        assert!(!requested(), "it was looked for");
        sync_requests.request_missing("b", "photon");
        assert!(requested(), "another machine, later");
        sync_requests.forget();
        sync_requests.request_missing("a", "photon");
        assert!(requested());
        sync_requests.request();
        sync_requests.begin();
        assert!(!requested(), "a look answers all that asked before it");
    }
}
