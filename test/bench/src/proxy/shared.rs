//! The state that all requests through the proxy share.

use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;

use super::injections::Injections;

pub(super) struct ProxyShared {
    pub upstream: Client,
    pub account: String,
    pub injections: Mutex<Injections>,
    pub activity: Mutex<Activity>,
}

pub(super) struct Activity {
    pub in_flight: usize,
    pub last: Instant,
}

/// A guard for a call in flight.
pub(super) struct CallInFlight<'a>(&'a ProxyShared);

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        activity.in_flight -= 1;
        activity.last = Instant::now();
    }
}

impl ProxyShared {
    pub fn busy(&self) -> CallInFlight<'_> {
        self.activity.lock().in_flight += 1;
        CallInFlight(self)
    }
}
