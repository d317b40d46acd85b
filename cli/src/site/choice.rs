//! Chooses one vCenter object among several candidates. This module doesn't perform I/O.

use std::fmt;

use anyhow::Result;

use crate::terminal::exit::ExitStatus;

/// Returns from the function with an error that tells the user what to pass.
macro_rules! refuse {
    ($($arg:tt)*) => { return Err(ExitStatus::Refused.error(format!($($arg)*))) };
}

/// A candidate object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The display name or path.
    pub name: String,
    /// The MoID or other ID.
    pub id: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.id)
    }
}

/// A chosen object, and the reason for the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The display name of the kind, such as `datastore`.
    pub what: &'static str,
    pub chosen: Candidate,
    pub reason: String,
}

/// A choice that a site needs: an object kind, and the flag that selects the object.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The display name of the kind.
    pub what: &'static str,
    /// The flag, such as `--datastore`.
    pub flag: &'static str,
    /// The condition that all candidates meet, such as ` that all hosts of the cluster have`. Empty if there isn't one.
    pub condition: &'static str,
}

impl Question {
    /// Creates a question without a condition.
    pub const fn about(what: &'static str, flag: &'static str) -> Self {
        Self { what, flag, condition: "" }
    }

    /// Chooses the object that the flag names, or the only candidate.
    ///
    /// # Errors
    /// Returns an error if the named object doesn't exist or is ambiguous, or if `named` is `None` and there isn't
    /// exactly one candidate.
    pub fn choose(self, candidates: &[Candidate], named: Option<&str>) -> Result<Choice> {
        self.choose_or(candidates, named, || None)
    }

    /// Chooses like [`choose`](Self::choose). But if there are several candidates and `named` is `None`, chooses the
    /// candidate that `preferred` returns. Its string is the reason for the choice.
    ///
    /// # Errors
    /// See [`choose`](Self::choose). If there are several candidates, returns an error only if `preferred` returns
    /// `None`.
    pub fn choose_or(
        self,
        candidates: &[Candidate],
        named: Option<&str>,
        preferred: impl FnOnce() -> Option<(Candidate, String)>,
    ) -> Result<Choice> {
        let Self { what, flag, condition } = self;
        let made = |chosen: &Candidate, reason: String| Ok(Choice { what, chosen: chosen.clone(), reason });
        let list = || candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if let Some(named) = named {
            let fits = |one: &&Candidate| one.id == named || one.name == named;
            let found: Vec<_> = candidates.iter().filter(fits).collect();
            return match found.as_slice() {
                [one] => made(one, format!("by {flag}")),
                [] if candidates.is_empty() => {
                    refuse!("{flag} {named}: vCenter shows the user no {what}{condition}")
                }
                [] => refuse!("{flag} {named}: there is no such {what}{condition}. There are: {}", list()),
                _ => refuse!("{flag} {named}: several have this name. Pass the id: {}", list()),
            };
        }
        match candidates {
            [] => {
                refuse!(
                    "vCenter shows the user no {what}{condition}. Create one, or give the user System.View and System.Read on it"
                )
            }
            [one] => made(one, "the only one".to_owned()),
            _ => match preferred() {
                Some((one, reason)) => made(&one, reason),
                None => refuse!("several objects can be the {what}. Pass one with {flag}: {}", list()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Question = Question::about("network", "--network");

    fn candidates(names: &[&str]) -> Vec<Candidate> {
        let make = |(index, name): (usize, &&str)| Candidate {
            name: (*name).to_owned(),
            id: format!("network-{index}"),
        };
        names.iter().enumerate().map(make).collect()
    }

    #[test]
    fn one_object_is_chosen_or_the_error_lists_them() {
        type Case<'a> = (&'a [&'a str], Option<&'a str>, Result<&'a str, &'a str>);
        let cases: &[Case<'_>] = &[
            (&["a"], None, Ok("network-0 the only one")),
            (&["a", "b"], Some("b"), Ok("network-1 by --network")),
            (&["a", "b"], Some("network-0"), Ok("network-0 by --network")),
            (
                &["a", "b"],
                None,
                Err("several objects can be the network. Pass one with --network: a (network-0), b"),
            ),
            (&["a"], Some("c"), Err("no such network. There are: a (network-0)")),
            (&["a", "a"], Some("a"), Err("Pass the id: a (network-0), a (network-1)")),
            (&[], None, Err("shows the user no network")),
            (&[], Some("a"), Err("shows the user no network")),
        ];
        for (names, named, expected) in cases {
            let found = NETWORK.choose(&candidates(names), *named);
            match (found, expected) {
                (Ok(choice), Ok(expected)) => {
                    assert_eq!(format!("{} {}", choice.chosen.id, choice.reason), *expected);
                }
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}: {expected}");
                }
                (found, expected) => panic!("{names:?} {named:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn of_several_the_preferred_one_is_chosen() {
        let all = candidates(&["a", "b"]);
        let preferred = || Some((all[1].clone(), "it is larger".to_owned()));
        let choice = NETWORK.choose_or(&all, None, preferred).unwrap();
        assert_eq!((choice.chosen, choice.reason.as_str()), (all[1].clone(), "it is larger"));
        assert_eq!(NETWORK.choose_or(&all, Some("a"), || None).unwrap().chosen, all[0]);
    }
}
