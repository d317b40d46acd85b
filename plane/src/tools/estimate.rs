//! Estimates the remaining build time from the pace so far.

use std::time::{Duration, Instant};

/// The approximate number of packages that Go reports during one second of build time on two cores.
const PACKAGES_PER_SECOND: f64 = 5.0;
/// The share of the work that must be finished before [`Estimate::left`] returns an estimate.
const ENOUGH: f64 = 0.04;

/// The work of a build in seconds on two cores, and the finished part of it.
#[derive(Debug)]
pub(super) struct Estimate {
    began: Instant,
    total: f64,
    done: f64,
    current: f64,
    packages: f64,
}

impl Estimate {
    pub(super) fn new(seconds: u32) -> Self {
        Self { began: Instant::now(), total: f64::from(seconds), done: 0.0, current: 0.0, packages: 0.0 }
    }

    /// Begins a part that takes this many seconds, and finishes the previous part.
    pub(super) fn begin(&mut self, seconds: u32) {
        self.done += self.current;
        (self.current, self.packages) = (f64::from(seconds), 0.0);
    }

    /// Counts another compiled package in the current part.
    pub(super) fn advance(&mut self) {
        self.packages += 1.0;
    }

    /// Returns the remaining time at the pace so far, or `None` if that can't be estimated.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left_after(self.began.elapsed())
    }

    fn left_after(&self, elapsed: Duration) -> Option<Duration> {
        // The last packages are the largest, and then the linker runs. So packages count for at most 90 % of a part.
        let current = (self.packages / PACKAGES_PER_SECOND).min(self.current * 0.9);
        let share = (self.done + current) / self.total;
        (ENOUGH..=1.0).contains(&share).then(|| elapsed.mul_f64((1.0 - share) / share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_follows_the_pace() {
        let mut estimate = Estimate::new(100);
        estimate.begin(50);
        assert_eq!(estimate.left_after(Duration::from_secs(1)), None);
        (0..1000).for_each(|_| estimate.advance());
        assert_eq!(estimate.left_after(Duration::from_secs(90)), Some(Duration::from_secs(110)));
        estimate.begin(50);
        assert_eq!(estimate.left_after(Duration::from_secs(100)), Some(Duration::from_secs(100)));
    }
}
