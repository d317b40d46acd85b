//! kubeadm failures that tests inject.

use std::sync::Arc;

use parking_lot::Mutex;

use super::failure::Failure;
use crate::pattern::fits;

/// kubeadm failures by VM name pattern. Clones share the same list.
#[derive(Clone, Debug, Default)]
pub struct Provoked(Arc<Mutex<Vec<(String, Failure)>>>);

impl Provoked {
    /// Makes kubeadm fail on VMs whose name matches the pattern.
    pub(super) fn add(&self, pattern: &str, failure: Failure) {
        self.0.lock().push((pattern.to_owned(), failure));
    }

    /// Removes the failures that were added with exactly this pattern.
    pub(super) fn remove(&self, pattern: &str) {
        self.0.lock().retain(|(provoked, _)| provoked != pattern);
    }

    /// Returns the injected failure for a VM name, or `None` if no pattern matches. The first matching pattern applies.
    pub(super) fn failure_of(&self, name: &str) -> Option<Failure> {
        let all = self.0.lock();
        all.iter().find(|(pattern, _)| fits(pattern, name)).map(|(_, failure)| failure.clone())
    }
}
