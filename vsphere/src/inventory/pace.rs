//! A rate limiter (token bucket) for stream reads.
//!
//! A single change is read immediately. During a change storm, reads are limited to a few per second, and each read
//! returns many changes.

use std::time::Duration;

use tokio::time::Instant;

pub(super) struct StreamRateLimiter {
    burst: f64,
    every: Duration,
    room: f64,
    at: Instant,
}

impl StreamRateLimiter {
    pub fn new(burst: u32, every: Duration) -> Self {
        Self { burst: burst.max(1).into(), every, room: burst.max(1).into(), at: Instant::now() }
    }

    /// Waits until the next read may start.
    pub async fn turn(&mut self) {
        let wait = self.wait_at(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes a token and returns the time to wait until the token is available.
    fn wait_at(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at);
        let gained = if self.every.is_zero() { self.burst } else { passed.div_duration_f64(self.every) };
        self.at = now;
        self.room = (self.room + gained).min(self.burst) - 1.0;
        if self.room >= 0.0 { Duration::ZERO } else { self.every.mul_f64(-self.room) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_steady_pace() {
        let mut pace = StreamRateLimiter::new(3, Duration::from_millis(100));
        let mut now = pace.at;
        let mut waits = Vec::new();
        for _ in 0..6 {
            let wait = pace.wait_at(now);
            waits.push(wait.as_millis());
            now += wait;
        }
        assert_eq!(waits, [0, 0, 0, 100, 100, 100]);
        now += Duration::from_secs(10);
        assert!(pace.wait_at(now).is_zero());
    }
}
