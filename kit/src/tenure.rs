//! Checks right before each write if this replica may still act.
//!
//! A leader that was suspended resumes in the middle of its work, and doesn't know that another
//! replica leads by now. So the lease's age is measured by a clock that includes suspension.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Method;

use crate::boot_time::{BootTime, Clock};

/// The time after the last renewal within which the holder must stop acting.
pub(crate) const RENEW_WITHIN: Duration = Duration::from_secs(10);

/// The error for a write that isn't sent because the lease is too old, so another replica may be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: the lease was not renewed in time, so another replica may be active")]
pub struct Expired;

/// The age of this replica's lease. Clones share it.
#[derive(Clone)]
pub struct Tenure(Arc<Inner>);

struct Inner {
    clock: Clock,
    /// The last renewal in milliseconds since boot, or [`NONE`] if this replica hasn't led with a lease.
    renewed: AtomicU64,
}

/// Marks a replica that hasn't led with a lease. Its writes, such as to its webhook certificate, don't need leadership.
const NONE: u64 = u64::MAX;

impl Tenure {
    pub(crate) fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, renewed: AtomicU64::new(NONE) }))
    }

    /// Creates a tenure whose lease was last renewed at boot, to test code that checks the tenure.
    pub fn expired() -> Self {
        Self(Arc::new(Inner { clock: Clock::default(), renewed: AtomicU64::new(0) }))
    }

    /// Records that this replica acquired or renewed the lease at this time.
    pub(crate) fn renewed(&self, at: BootTime) {
        let millis = u64::try_from(at.0.as_millis()).unwrap_or(NONE);
        self.0.renewed.store(millis, Ordering::SeqCst);
    }

    /// Returns an error if this replica has led with a lease that is now too old.
    ///
    /// # Errors
    /// [`Expired`] if the last renewal was 10 s ago or earlier.
    pub fn check(&self) -> Result<(), Expired> {
        let renewed = self.0.renewed.load(Ordering::SeqCst);
        if renewed == NONE {
            return Ok(());
        }
        let at = BootTime(Duration::from_millis(renewed));
        if self.0.clock.since(at) < RENEW_WITHIN { Ok(()) } else { Err(Expired) }
    }

    /// Same as [`Self::check`], for a request with this method. Reads are always allowed.
    pub(crate) fn check_request(&self, method: &Method) -> Result<(), Expired> {
        if method.is_safe() { Ok(()) } else { self.check() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a clock that advances only when the counter is changed.
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
