//! Limits the rate at which watches are read.

use std::time::Duration;

use tokio::time::Instant;

/// The maximum number of bytes per second that are read from one guest's watches.
const PACE: usize = 2 << 20;

/// The watch bytes that a guest has sent in the current second.
pub struct WatchRate {
    since: Instant,
    bytes: usize,
}

impl Default for WatchRate {
    fn default() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }
}

impl WatchRate {
    /// Counts bytes. Returns the time to wait before more bytes are read, or `None` if they can be read at once.
    pub(super) fn count(&mut self, bytes: usize) -> Option<Duration> {
        let second = Duration::from_secs(1);
        let gone = self.since.elapsed();
        if gone >= second {
            *self = Self::default();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        (self.bytes > PACE).then(|| second.saturating_sub(gone))
    }
}
