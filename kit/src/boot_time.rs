//! The time since the machine booted. Unlike `Instant`, it advances while the machine is suspended.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time, as the duration since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootTime(pub(crate) Duration);

/// A clock that measures the time since boot. Tests can replace it.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(|| {
            let time = clock_gettime(ClockId::Boottime);
            let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
            Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
        }))
    }
}

impl Clock {
    #[cfg(test)]
    pub fn from_fn(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub fn now(&self) -> BootTime {
        BootTime((self.0)())
    }

    /// Returns the time since `moment`.
    pub fn since(&self, moment: BootTime) -> Duration {
        self.now().0.saturating_sub(moment.0)
    }
}
