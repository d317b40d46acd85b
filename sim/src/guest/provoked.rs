//! Failures that stories provoke.

use std::sync::Arc;

use parking_lot::Mutex;

use super::failure::Failure;
use crate::pattern::fits;

/// What kubeadm fails with, by patterns of VMs' names; many look at it and a story changes it.
#[derive(Clone, Debug, Default)]
pub struct Provoked(Arc<Mutex<Vec<(String, Failure)>>>);

impl Provoked {
    /// Has kubeadm fail so on VMs whose name fits the pattern.
    pub(super) fn add(&self, pattern: &str, failure: Failure) {
        self.0.lock().push((pattern.to_owned(), failure));
    }

    /// Takes back what was provoked by this pattern.
    pub(super) fn remove(&self, pattern: &str) {
        self.0.lock().retain(|(provoked, _)| provoked != pattern);
    }

    /// What kubeadm fails with on a VM of that name.
    pub(super) fn failure_of(&self, name: &str) -> Option<Failure> {
        let all = self.0.lock();
        all.iter().find(|(pattern, _)| fits(pattern, name)).map(|(_, failure)| failure.clone())
    }
}
