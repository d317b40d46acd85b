//! What a reconcile can come to, and how long an object that fails waits before it is tried again.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use rand::RngExt;

/// What a reconcile that came through asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes (or the slow resync comes round).
    OnChange,
    /// Another look after this time, change or not.
    After(Duration),
}

/// The three families of a reconcile that did not come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The user must act: nothing is tried again before a change.
    Invalid,
    /// Something else must happen first; with a time, if no watch shows it.
    Waiting(Option<Duration>),
    /// It went wrong, and may go right another time.
    Failed,
}

impl Disposition {
    /// The family of an API server's refusal: a lost race is only a wait for the cache.
    pub fn from_api_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_conflict() => Self::Waiting(Some(REQUEUE_SOON)),
            _ => Self::Failed,
        }
    }
}

/// When a cache that is behind has probably caught up.
pub const REQUEUE_SOON: Duration = Duration::from_millis(100);

/// An error of a reconcile that knows its family.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// The family this error belongs to.
    fn disposition(&self) -> Disposition;
    /// The variant's name: the metric's label, and the log's.
    fn label(&self) -> &'static str;
}

/// `delay` give or take a fifth, so that a fleet does not march in step.
pub fn jitter(delay: Duration) -> Duration {
    delay.mul_f64(rand::rng().random_range(0.8..1.2))
}

/// After so many doublings every delay has reached its longest.
const MOST_DOUBLINGS: usize = 20;

/// Consecutive failures per object, and the delay they earn.
pub struct Failures<Key> {
    delays: ExponentialBuilder,
    counts: Mutex<HashMap<Key, usize>>,
}

impl<Key: Hash + Eq> Failures<Key> {
    /// Delays that start at `first` and double up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let delays =
            ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
        Self { delays, counts: Mutex::new(HashMap::new()) }
    }

    /// Counts one more failure in a row, and says how long to wait before the next try.
    pub fn next(&self, key: Key) -> Duration {
        let mut counts = self.counts.lock();
        let count = counts.entry(key).or_default();
        let delay = self.delays.build().nth((*count).min(MOST_DOUBLINGS)).unwrap_or_default();
        *count = count.saturating_add(1);
        jitter(delay)
    }

    /// Returns true if the last try failed.
    pub fn has_failed(&self, key: &Key) -> bool {
        self.counts.lock().contains_key(key)
    }

    /// Ends the row of failures: it worked, or the object is gone.
    pub fn reset(&self, key: &Key) {
        self.counts.lock().remove(key);
    }
}

impl<Key: Hash + Eq> Default for Failures<Key> {
    fn default() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(256))
    }
}

/// How often one object may be reconciled: a burst at once, then one at a time.
///
/// A step that follows another waits for no timer. A loop (two writers of one field, a status that never settles)
/// is slowed down before it becomes a storm.
pub struct RateLimiter<Key> {
    burst: u32,
    each: Duration,
    /// When each object will have its whole burst again; who has it is not here for long.
    full_at: Mutex<HashMap<Key, Instant>>,
}

impl<Key: Hash + Eq> RateLimiter<Key> {
    /// `burst` at once, and one more after each `each`.
    pub fn new(burst: u32, each: Duration) -> Self {
        Self { burst, each, full_at: Mutex::default() }
    }

    /// Takes one from the burst, or says how long to wait for one.
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
