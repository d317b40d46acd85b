//! Pauses between the rounds of one workload cluster.

use std::time::Duration;

use kit::retry::{Failures, jitter};

use super::report::{AddonReport, AddonState};

/// The shortest and the longest pause after a round that failed or left work unfinished.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));
/// The pause between rounds while add-ons start. Watch events cause additional rounds.
const PROGRESS: Duration = Duration::from_secs(20);
/// The pause between rounds when all add-ons are settled.
const RESYNC: Duration = Duration::from_mins(10);

/// Computes the pauses between rounds. Counts consecutive rounds that failed or left work unfinished, and consecutive rounds that
/// found a required program missing.
pub struct Rhythm {
    failures: Failures<()>,
    absences: Failures<()>,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self { failures: Failures::new(PAUSES.0, PAUSES.1), absences: Failures::new(PAUSES.0, PAUSES.1) }
    }
}

impl Rhythm {
    /// Returns the pause after a round with these reports. The pauses also grow if all add-ons are settled but the workload
    /// cluster lacks a program that it needs (`lacks_requested`).
    pub fn after_round(&self, reports: &[AddonReport], lacks_requested: bool) -> Duration {
        let failing =
            |report: &AddonReport| matches!(report.state, AddonState::Failed(_) | AddonState::Pending(_));
        if reports.iter().any(failing) {
            return self.failures.next(());
        }
        self.failures.reset(&());
        let rising = |report: &AddonReport| matches!(report.state, AddonState::InProgress(_));
        let is_rising = reports.iter().any(rising);
        if lacks_requested && !is_rising {
            return self.absences.next(());
        }
        self.absences.reset(&());
        jitter(if is_rising { PROGRESS } else { RESYNC })
    }

    /// Returns the pause after a round in which the workload cluster didn't respond.
    pub fn after_failure(&self) -> Duration {
        self.failures.next(())
    }

    /// Returns true if the last round failed, or reported failed or pending add-ons.
    pub fn has_failed(&self) -> bool {
        self.failures.has_failed(&())
    }

    /// Restarts with the shortest pauses. Call this when the desired state has changed.
    pub fn reset(&self) {
        self.failures.reset(&());
        self.absences.reset(&());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(state: AddonState) -> Vec<AddonReport> {
        vec![AddonReport { name: "a".to_owned(), type_: None, version: None, state }]
    }

    /// Returns true if the pause is the expected one, with a jitter of at most one fifth.
    fn is_about(pause: Duration, expected: Duration) -> bool {
        pause >= expected.mul_f64(0.8) && pause <= expected.mul_f64(1.2)
    }

    #[test]
    fn a_program_that_is_asked_for_is_looked_for_less_and_less_often() {
        let rhythm = Rhythm::default();
        let applied = reports(AddonState::Applied);
        assert!(is_about(rhythm.after_round(&applied, false), RESYNC));
        for seconds in [2, 4, 8, 16] {
            assert!(is_about(rhythm.after_round(&applied, true), Duration::from_secs(seconds)), "{seconds}");
        }
        assert!(!rhythm.has_failed(), "the guest answers");
        for _ in 0..10 {
            rhythm.after_round(&applied, true);
        }
        assert!(is_about(rhythm.after_round(&applied, true), PAUSES.1));
        let rising = reports(AddonState::InProgress("0 of 1 Pods are available".to_owned()));
        assert!(is_about(rhythm.after_round(&rising, true), PROGRESS));
        assert!(is_about(rhythm.after_round(&applied, true), PAUSES.0), "an add-on has just come up");
        rhythm.after_round(&applied, true);
        rhythm.reset();
        assert!(is_about(rhythm.after_round(&applied, true), PAUSES.0), "the cluster has changed");
    }
}
