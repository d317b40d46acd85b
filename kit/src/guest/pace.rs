//! How fast watches are read.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes of the watches of one guest that are read in a second.
const PACE: usize = 2 << 20;

/// How much of its watches a guest has sent in the current second.
pub struct Pace {
    since: Instant,
    bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }
}

impl Pace {
    /// Counts bytes, and says how long to wait before more are read.
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
