//! Whether this replica may still act: asked right before each write.
//!
//! A leader that was suspended wakes up in the middle of what it did, and does not know that another leads meanwhile. Its
//! lease has an age, by a clock that went on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Method;

use crate::boot_time::{BootTime, Clock};

/// After so long without a renewal the holder must have stopped.
pub(crate) const RENEW_WITHIN: Duration = Duration::from_secs(10);

/// The lease of a replica became too old: another may act, so nothing is written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: the lease was not renewed in time, so another replica may be active")]
pub struct Expired;

/// The age of this replica's lease. Clones are the same.
#[derive(Clone)]
pub struct Tenure(Arc<Inner>);

struct Inner {
    clock: Clock,
    /// When the lease was last renewed, in milliseconds since boot; [`NONE`] where there is no lease to lose.
    renewed: AtomicU64,
}

/// What a replica does before it leads is no leader's business, such as to keep its certificate.
const NONE: u64 = u64::MAX;

impl Tenure {
    pub(crate) fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, renewed: AtomicU64::new(NONE) }))
    }

    /// That of a replica whose lease was renewed at boot and not since, for tests of who asks.
    pub fn expired() -> Self {
        Self(Arc::new(Inner { clock: Clock::default(), renewed: AtomicU64::new(0) }))
    }

    /// The lease is this replica's since then, or again.
    pub(crate) fn renewed(&self, at: BootTime) {
        let millis = u64::try_from(at.0.as_millis()).unwrap_or(NONE);
        self.0.renewed.store(millis, Ordering::SeqCst);
    }

    /// Whether the lease, if this replica has led by one, is younger than others wait for.
    ///
    /// # Errors
    /// [`Expired`] from the moment on at which the lease had to be renewed.
    pub fn check(&self) -> Result<(), Expired> {
        let renewed = self.0.renewed.load(Ordering::SeqCst);
        if renewed == NONE {
            return Ok(());
        }
        let at = BootTime(Duration::from_millis(renewed));
        if self.0.clock.since(at) < RENEW_WITHIN { Ok(()) } else { Err(Expired) }
    }

    /// As [`Self::check`], for a request with that method: reading is always fine.
    pub(crate) fn check_request(&self, method: &Method) -> Result<(), Expired> {
        if method.is_safe() { Ok(()) } else { self.check() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A clock that stands still until it is moved on.
    pub fn stopped() -> (Clock, Arc<AtomicU64>) {
        let millis = Arc::new(AtomicU64::new(5000));
        let read = Arc::clone(&millis);
        (Clock::from_fn(move || Duration::from_millis(read.load(Ordering::SeqCst))), millis)
    }

    #[test]
    fn a_lease_that_is_too_old_ends_the_tenure_and_a_renewal_goes_on_with_it() {
        let (clock, millis) = stopped();
        let tenure = Tenure::new(clock.clone());
        millis.store(100_000, Ordering::SeqCst);
        assert_eq!(tenure.check(), Ok(()), "it has not led");
        tenure.renewed(clock.now());
        millis.store(109_999, Ordering::SeqCst);
        assert_eq!(tenure.check(), Ok(()));
        millis.store(110_000, Ordering::SeqCst);
        assert_eq!(tenure.check(), Err(Expired));
        assert_eq!(tenure.check_request(&Method::GET), Ok(()));
        assert_eq!(tenure.check_request(&Method::DELETE), Err(Expired));
        tenure.renewed(clock.now());
        assert_eq!(tenure.check(), Ok(()));
    }
}
