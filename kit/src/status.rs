//! Computes conditions without a clock, and sets their times in one function.
//!
//! A status function returns the current conditions. [`settle`] keeps the transition time of each condition whose status is
//! unchanged, and updates the others. So status functions stay pure, and an unchanged status compares equal.

use api::condition_lists::ConditionLists;
use api::conditions::Condition as Graded;
use bounds::printable;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition of either type: metav1's, or Cluster API's older type with a severity.
pub trait Conditional: Clone + PartialEq {
    /// Returns the type, such as `Ready`.
    fn type_(&self) -> &str;
    /// Returns `True`, `False` or `Unknown`.
    fn status(&self) -> &str;
    /// Returns the reason, one CamelCase word. It may be empty.
    fn reason(&self) -> &str;
    /// Returns the human-readable message. It may be empty.
    fn message(&self) -> &str;
    /// Returns the last transition time.
    fn since(&self) -> Time;
    /// Sets the last transition time.
    fn set_since(&mut self, since: Time);
    /// Sets the human-readable message.
    fn set_message(&mut self, message: String);
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
    fn set_message(&mut self, message: String) {
        self.message = message;
    }
}

/// The maximum length of a message line in characters.
const LINE: usize = 2000;
/// The maximum message length in lines. Cluster API lists one cause per line.
const LINES: usize = 50;

/// Sets the transition times in `new`: the old time if the status is unchanged, `now` otherwise.
///
/// Messages repeat text from guests, vCenter, other controllers and people. So characters that control a terminal
/// are replaced, and the length is limited, so that the API server always accepts the status.
///
/// Conditions that aren't in `new` are dropped, because one function per kind computes them all.
pub fn settle<C: Conditional>(old: &[C], mut new: Vec<C>, now: Timestamp) -> Vec<C> {
    for condition in &mut new {
        let before = old.iter().find(|old| old.type_() == condition.type_());
        let kept = before.filter(|old| old.status() == condition.status());
        condition.set_since(kept.map_or(Time(now), Conditional::since));
        if let Some(shown) = limit_message(condition.message()) {
            condition.set_message(shown);
        }
    }
    new
}

/// Sets the transition times of all conditions in `new`, as [`settle`] does. `old` is the status that the object has now.
pub fn settle_all<S>(new: &mut S, old: Option<&S>, now: Timestamp)
where
    S: ConditionLists<Condition: Conditional>,
{
    for (name, conditions) in new.condition_lists() {
        let old = old.map(|old| old.condition_list(&name)).unwrap_or_default();
        *conditions = settle(old, std::mem::take(conditions), now);
    }
}

/// Returns the message in printable form and within the limits, or `None` if the message is already in this form.
fn limit_message(message: &str) -> Option<String> {
    let lines = message.split('\n').take(LINES).map(|line| printable(line, LINE));
    let shown = lines.collect::<Vec<_>>().join("\n");
    (shown != message).then_some(shown)
}

/// Creates a metav1 condition with the status `True` or `False`. `generation` is the object's observed generation. [`settle`]
/// sets the transition time.
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

/// Returns the condition with this type, if it exists.
pub fn find<'a, C: Conditional>(conditions: &'a [C], type_: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.type_() == type_)
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
    fn set_message(&mut self, message: String) {
        self.message = Some(message);
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
    fn no_message_steers_a_terminal_or_grows_without_end() {
        let hostile = format!("* a\u{1b}]0;x\u{7}\r\n* b\u{202e}c{}", "x\n".repeat(1 << 20));
        let graded = Graded { type_: "Ready".into(), message: Some(hostile.clone()), ..Graded::default() };
        let graded = settle(&[], vec![graded], at(1))[0].message.clone().unwrap();
        let plain =
            settle(&[], vec![condition("Ready", false, "Why", hostile, None)], at(1))[0].message.clone();
        assert_eq!(graded, plain);
        assert!(plain.starts_with("* a ]0;x  \n* b cx\nx\n"), "{plain:?}");
        assert!(plain.len() < 1000 && plain.chars().all(|c| c == '\n' || !c.is_control()), "{plain:?}");
        let long = settle(&[], vec![condition("Ready", false, "Why", "y".repeat(1 << 20), None)], at(1));
        assert_eq!(long[0].message.chars().count(), LINE + 1);
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
