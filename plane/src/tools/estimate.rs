//! How long a build still takes, from how fast it was so far.

use std::time::{Duration, Instant};

/// Go names about so many packages while it builds for a second on two cores.
const PACKAGES_PER_SECOND: f64 = 5.0;
/// Before this share of the work is done, the pace is anybody's guess.
const ENOUGH: f64 = 0.04;

/// The work of a build in seconds on two cores, and how much of it is done.
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

    /// A part of so many seconds begins; the one before is done.
    pub(super) fn begin(&mut self, seconds: u32) {
        self.done += self.current;
        (self.current, self.packages) = (f64::from(seconds), 0.0);
    }

    /// One more package of the current part is compiled.
    pub(super) fn advance(&mut self) {
        self.packages += 1.0;
    }

    /// What is left, at the pace so far.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left_after(self.began.elapsed())
    }

    fn left_after(&self, elapsed: Duration) -> Option<Duration> {
        // The last packages are the large ones, and then the linker comes.
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
