//! Detects idle connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The requests on one connection.
pub(super) struct ConnectionActivity(Mutex<State>);

struct State {
    in_flight: usize,
    /// The time at which the connection was opened or its last request ended.
    since: Instant,
    used: bool,
}

/// A running request. It ends on drop.
pub(super) struct ActiveRequest(Arc<ConnectionActivity>);

impl Default for ConnectionActivity {
    fn default() -> Self {
        Self(Mutex::new(State { in_flight: 0, since: Instant::now(), used: false }))
    }
}

impl ConnectionActivity {
    /// Records the start of a request.
    pub fn begin(self: &Arc<Self>) -> ActiveRequest {
        let mut state = self.0.lock();
        state.in_flight += 1;
        state.used = true;
        ActiveRequest(Arc::clone(self))
    }

    /// Waits until the connection has been idle for `first` before its first request, or for `later` after a request.
    pub async fn idle(&self, first: Duration, later: Duration) {
        loop {
            let deadline = {
                let state = self.0.lock();
                match (state.in_flight, state.used) {
                    (0, false) => state.since + first,
                    (0, true) => state.since + later,
                    _ => Instant::now() + later,
                }
            };
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.in_flight -= 1;
        state.since = Instant::now();
    }
}
