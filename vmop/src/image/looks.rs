//! Looks at the libraries before their time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Asks for looks at the libraries.
#[derive(Debug, Default)]
pub struct Looks {
    asked: Notify,
    /// Whether the libraries were looked at once: before that, whoever misses something need not ask.
    begun: AtomicBool,
    /// The machines, by UID, and the images that they missed since the last look by the clock.
    missed: Mutex<HashSet<(String, String)>>,
}

impl Looks {
    /// The libraries are looked at soon.
    pub fn soon(&self) {
        self.asked.notify_one();
    }

    /// A machine misses an image: that is worth one look, however often it is found missing.
    pub fn missing(&self, machine: &str, image: &str) {
        let new = || self.missed.lock().insert((machine.to_owned(), image.to_owned()));
        if self.begun.load(Ordering::Acquire) && new() {
            self.soon();
        }
    }

    /// Resolves when a look is asked for, or was since the last one.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// What was asked for so far is looked at now.
    pub(super) fn begin(&self) {
        let _ = self.asked.notified().now_or_never();
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
        let looks = Looks::default();
        let asked = || looks.asked().now_or_never().is_some();
        looks.missing("a", "photon");
        assert!(!asked(), "the first look comes anyway");
        looks.begin();
        looks.missing("a", "photon");
        assert!(asked());
        looks.missing("a", "photon");
        assert!(!asked(), "it was looked for");
        looks.missing("b", "photon");
        assert!(asked(), "another machine, later");
        looks.forget();
        looks.missing("a", "photon");
        assert!(asked());
        looks.soon();
        looks.begin();
        assert!(!asked(), "a look answers all that asked before it");
    }
}
