//! Conditions: computed without a clock, stamped in one place.
//!
//! A status function says what is true; [`settle`] keeps the transition time of what was true before and stamps
//! the rest. So status functions stay pure, and a status that did not change compares equal.

use api::conditions::Condition as Graded;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition of either kind: metav1's, or Cluster API's older one with a severity.
pub trait Conditional: Clone + PartialEq {
    /// `Ready`, say.
    fn type_(&self) -> &str;
    /// `True`, `False` or `Unknown`.
    fn status(&self) -> &str;
    /// Why, in one CamelCase word; may be empty.
    fn reason(&self) -> &str;
    /// Why, for people; may be empty.
    fn message(&self) -> &str;
    /// Since when the status holds.
    fn since(&self) -> Time;
    /// Says since when the status holds.
    fn set_since(&mut self, since: Time);
}

impl Conditional for Condition {
    fn type_(&self) -> &str {
        &self.type_
    }
    fn status(&self) -> &str {
        &self.status
    }
    fn reason(&self) -> &str {
        &self.reason
    }
    fn message(&self) -> &str {
        &self.message
    }
    fn since(&self) -> Time {
        self.last_transition_time.clone()
    }
    fn set_since(&mut self, since: Time) {
        self.last_transition_time = since;
    }
}

/// Stamps `new` conditions: the old time where the status is the old one, else `now`.
///
/// Conditions that are not in `new` are dropped: one function per kind computes them all.
pub fn settle<C: Conditional>(old: &[C], mut new: Vec<C>, now: Timestamp) -> Vec<C> {
    for condition in &mut new {
        let before = old.iter().find(|old| old.type_() == condition.type_());
        let kept = before.filter(|old| old.status() == condition.status());
        condition.set_since(kept.map_or(Time(now), Conditional::since));
    }
    new
}

/// A metav1 condition whose time [`settle`] will fill in.
pub fn condition(
    type_: &str,
    status: bool,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// The condition of this type, if there is one.
pub fn find<'a, C: Conditional>(conditions: &'a [C], type_: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.type_() == type_)
}

/// Whether the condition of this type is there and True.
pub fn is_true<C: Conditional>(conditions: &[C], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status() == "True")
}

impl Conditional for Graded {
    fn type_(&self) -> &str {
        &self.type_
    }
    fn status(&self) -> &str {
        &self.status
    }
    fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }
    fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }
    fn since(&self) -> Time {
        self.last_transition_time.clone().unwrap_or(Time(Timestamp::UNIX_EPOCH))
    }
    fn set_since(&mut self, since: Time) {
        self.last_transition_time = Some(since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_moves_only_when_the_status_flips() {
        let old = settle(&[], vec![condition("Ready", false, "Waiting", "for a", None)], at(10));
        assert_eq!(old[0].last_transition_time.0, at(10));
        let same = settle(&old, vec![condition("Ready", false, "Waiting", "for b", None)], at(20));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!(same[0].message, "for b");
        let flipped = settle(&same, vec![condition("Ready", true, "Ready", "", None)], at(30));
        assert_eq!(flipped[0].last_transition_time.0, at(30));
    }

    #[test]
    fn both_kinds_settle_alike() {
        let graded = |status: &str| Graded {
            type_: "Ready".into(),
            status: status.to_owned().into(),
            ..Graded::default()
        };
        let old = settle(&[], vec![graded("False")], at(10));
        assert_eq!(settle(&old, vec![graded("False")], at(20)), old);
        assert_eq!(settle(&old, vec![graded("True")], at(20))[0].since().0, at(20));
    }

    #[test]
    fn what_is_not_computed_any_more_is_dropped() {
        let old = vec![condition("Gone", true, "Was", "", None)];
        assert!(settle(&old, Vec::new(), at(1)).is_empty());
    }
}
