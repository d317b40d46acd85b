//! The state that a guest's controller keeps between rounds, and the pauses that follow from it.

use std::time::Duration;

use tokio::time::Instant;

use super::report::{AddonReport, AddonState};
use super::session::GuestSession;

/// The time for which failures are ignored before the workload cluster is reported as unreachable.
const GRACE: Duration = Duration::from_secs(2);
/// The shortest and the longest pause after a round that left work unfinished.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));
/// The pause between rounds while add-ons start. Watch events cause additional rounds.
const STARTING: Duration = Duration::from_secs(20);
/// The pause between rounds when all add-ons are settled.
const RESYNC: Duration = Duration::from_mins(10);

/// The state of one guest between rounds.
#[derive(Default)]
pub struct RoundState {
    /// The connection after the last round, unless that round failed.
    pub session: Option<GuestSession>,
    /// True from a round's beginning to its end. A round that exceeds its deadline doesn't end.
    runs: bool,
    /// The end of the first of the consecutive rounds that failed.
    failing_since: Option<Instant>,
    unfinished: Option<(Unfinished, Instant)>,
}

/// The work that rounds left, since the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    /// An add-on failed or waits.
    AddOns,
    /// All add-ons are settled, but the workload cluster lacks a program that it needs.
    Programs,
}

impl RoundState {
    /// Returns true if the last round exceeded its deadline. Call this before [`Self::begin`].
    pub fn is_late(&self) -> bool {
        self.runs
    }

    /// Begins a round.
    pub fn begin(&mut self) {
        self.runs = true;
    }

    /// Resets the pause between rounds to the shortest one, for a new desired state.
    pub fn restart(&mut self) {
        self.unfinished = None;
    }

    /// Ends a round that failed. Returns true if rounds have failed for longer than a short interruption.
    pub fn end_failed(&mut self, now: Instant) -> bool {
        self.runs = false;
        now.duration_since(*self.failing_since.get_or_insert(now)) >= GRACE
    }

    /// Ends a round with these reports, and returns the pause until the next round. `lacks_requested` is true if the workload cluster
    /// lacks a program that it needs. The pause grows with the time for which work has been unfinished.
    pub fn end(&mut self, reports: &[AddonReport], lacks_requested: bool, now: Instant) -> Duration {
        self.runs = false;
        self.failing_since = None;
        let has = |is: fn(&AddonState) -> bool| reports.iter().any(|report| is(&report.state));
        let starts = has(|state| matches!(state, AddonState::InProgress(_)));
        let left = if has(|state| matches!(state, AddonState::Failed(_) | AddonState::Pending(_))) {
            Some(Unfinished::AddOns)
        } else if lacks_requested && !starts {
            Some(Unfinished::Programs)
        } else {
            None
        };
        let before = self.unfinished.filter(|(before, _)| Some(*before) == left);
        self.unfinished = before.or(left.map(|left| (left, now)));
        match self.unfinished {
            Some((_, since)) => now.duration_since(since).clamp(PAUSES.0, PAUSES.1),
            None if starts => STARTING,
            None => RESYNC,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(state: AddonState) -> Vec<AddonReport> {
        vec![AddonReport { name: "a".to_owned(), type_: None, version: None, state }]
    }

    #[test]
    fn a_program_that_is_asked_for_is_looked_for_less_and_less_often() {
        let (mut progress, mut now) = (RoundState::default(), Instant::now());
        let applied = reports(AddonState::Applied);
        assert_eq!(progress.end(&applied, false, now), RESYNC);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let pause = progress.end(&applied, true, now);
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses, [2, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        let rising = reports(AddonState::InProgress("0 of 1 Pods are available".to_owned()));
        assert_eq!(progress.end(&rising, true, now), STARTING);
        assert_eq!(progress.end(&applied, true, now), PAUSES.0, "an add-on has just come up");
        now += PAUSES.1;
        assert_eq!(progress.end(&applied, true, now), PAUSES.1);
        let failed = reports(AddonState::Failed("refused".to_owned()));
        assert_eq!(progress.end(&failed, true, now), PAUSES.0);
        now += PAUSES.1;
        progress.restart();
        assert_eq!(progress.end(&failed, true, now), PAUSES.0, "the cluster has changed");
    }

    #[test]
    fn a_short_interruption_is_not_reported() {
        let (mut progress, now) = (RoundState::default(), Instant::now());
        assert!(!progress.end_failed(now) && !progress.end_failed(now + GRACE / 2));
        assert!(progress.end_failed(now + GRACE));
        progress.end(&[], false, now);
        assert!(!progress.end_failed(now + GRACE));
    }

    #[test]
    fn a_round_that_does_not_end_is_noticed() {
        let mut progress = RoundState::default();
        progress.begin();
        assert!(progress.is_late());
        progress.end(&[], false, Instant::now());
        assert!(!progress.is_late());
    }
}
