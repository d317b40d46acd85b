//! The results of a reconcile, and the delays before a failed object is retried.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use rand::RngExt;

use crate::api_error::is_conflict;

/// The time of the next reconcile after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Reconcile on the next change or at the next resync.
    OnChange,
    /// Reconcile after this delay, even without a change.
    After(Duration),
}

/// The families of reconcile errors, which determine when the object is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The user must change the object. The object isn't retried before a change or the next resync.
    Invalid,
    /// The object waits for something else. It is reconciled again after the delay, or, with `None`, when a watch reports a
    /// change.
    Waiting(Option<Duration>),
    /// The object changed in the meantime, or the cache doesn't contain this process's last write yet. The reconcile is repeated
    /// with current data at once. This isn't a failure, so it isn't reported.
    Overtaken,
    /// The reconcile failed and may succeed later. It is retried with backoff.
    Failed,
}

impl Disposition {
    /// Returns the disposition for an API error. After a conflict, the reconcile is repeated when the cache has caught up.
    pub fn from_api_error(error: &kube::Error) -> Self {
        if is_conflict(error) { Self::Overtaken } else { Self::Failed }
    }
}

/// The delay after which a stale cache has probably caught up.
pub const REQUEUE_SOON: Duration = Duration::from_millis(100);

/// A reconcile error with its disposition and its metric label.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// Returns the family that this error belongs to.
    fn disposition(&self) -> Disposition;
    /// Returns the variant name, which is the metric label.
    fn label(&self) -> &'static str;
    /// Returns true if the reconcile must be repeated with current data, which isn't a failure.
    fn is_overtaken(&self) -> bool {
        self.disposition() == Disposition::Overtaken
    }
}

/// Returns `delay` plus or minus up to 20 %, so that a fleet doesn't act in lockstep.
pub fn jitter(delay: Duration) -> Duration {
    delay.mul_f64(rand::rng().random_range(0.8..1.2))
}

/// The number of doublings after which every delay has reached its maximum.
const MOST_DOUBLINGS: usize = 20;

/// Counts consecutive failures per object and computes retry delays.
pub struct Failures<Key> {
    delays: ExponentialBuilder,
    counts: Mutex<HashMap<Key, usize>>,
}

impl<Key: Hash + Eq> Failures<Key> {
    /// Creates a counter with delays that start at `first` and double up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let delays =
            ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
        Self { delays, counts: Mutex::new(HashMap::new()) }
    }

    /// Records another consecutive failure and returns the delay before the next attempt.
    pub fn next(&self, key: Key) -> Duration {
        let mut counts = self.counts.lock();
        let count = counts.entry(key).or_default();
        let delay = self.delays.build().nth((*count).min(MOST_DOUBLINGS)).unwrap_or_default();
        *count = count.saturating_add(1);
        jitter(delay)
    }

    /// Returns true if the last attempt failed.
    pub fn has_failed(&self, key: &Key) -> bool {
        self.counts.lock().contains_key(key)
    }

    /// Ends a series of failures, after a success or when the object is gone.
    pub fn reset(&self, key: &Key) {
        self.counts.lock().remove(key);
    }
}

impl<Key: Hash + Eq> Default for Failures<Key> {
    fn default() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(256))
    }
}

/// Limits the reconcile rate per object: first a burst without delay, then one reconcile per interval.
///
/// Steps that follow each other don't wait for a timer. But a loop (two writers of one field, a
/// status that never settles) is slowed down.
pub struct RateLimiter<Key> {
    burst: u32,
    each: Duration,
    /// The time at which each object's burst is full again. Entries in the past are removed before the map grows.
    full_at: Mutex<HashMap<Key, Instant>>,
}

impl<Key: Hash + Eq> RateLimiter<Key> {
    /// Creates a limiter that admits `burst` reconciles at once, and then one per interval `each`.
    pub fn new(burst: u32, each: Duration) -> Self {
        Self { burst, each, full_at: Mutex::default() }
    }

    /// Takes one reconcile from the burst, or returns the time to wait as the error.
    pub fn admit(&self, key: Key, now: Instant) -> Result<(), Duration> {
        let mut full_at = self.full_at.lock();
        if full_at.len() == full_at.capacity() {
            full_at.retain(|_, full_at| *full_at > now);
        }
        let full = full_at.get(&key).copied().unwrap_or(now).max(now);
        let spent = full - now;
        let most = self.each * self.burst.saturating_sub(1);
        let wait = spent.saturating_sub(most);
        if !wait.is_zero() {
            return Err(wait);
        }
        full_at.insert(key, full + self.each);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_double_and_a_success_ends_the_row() {
        let failures = Failures::new(Duration::from_secs(1), Duration::from_mins(4));
        let bounds = |delay: Duration, nominal: f64| {
            let ratio = delay.as_secs_f64() / nominal;
            assert!((0.8..1.2).contains(&ratio), "{delay:?} is no {nominal} s");
        };
        for nominal in [1.0, 2.0, 4.0, 8.0] {
            bounds(failures.next("a"), nominal);
        }
        bounds(failures.next("b"), 1.0);
        failures.reset(&"a");
        bounds(failures.next("a"), 1.0);
    }

    #[test]
    fn a_burst_is_free_and_a_loop_is_not() {
        let limiter = RateLimiter::new(3, Duration::from_secs(1));
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(limiter.admit("a", start), Ok(()));
        }
        assert_eq!(limiter.admit("a", start), Err(Duration::from_secs(1)));
        assert_eq!(limiter.admit("b", start), Ok(()));
        let later = start + Duration::from_secs(1);
        assert_eq!(limiter.admit("a", later), Ok(()));
        assert_eq!(limiter.admit("a", later), Err(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn no_object_is_faster_than_its_pace(gaps in prop::collection::vec(0_u64..1500, 1..60)) {
            let limiter = RateLimiter::new(5, Duration::from_secs(1));
            let (start, mut at, mut admitted) = (Instant::now(), Duration::ZERO, 0_u64);
            for gap in gaps {
                at += Duration::from_millis(gap);
                admitted += u64::from(limiter.admit((), start + at).is_ok());
                prop_assert!(admitted <= 5 + at.as_secs());
            }
        }

        #[test]
        fn no_delay_is_longer_than_the_longest(tries in 0_usize..80) {
            let failures = Failures::new(Duration::from_millis(250), Duration::from_secs(256));
            for _ in 0..tries {
                prop_assert!(failures.next(()) <= Duration::from_secs(256).mul_f64(1.2));
            }
        }
    }
}
