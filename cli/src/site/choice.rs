//! Which of several objects of a vCenter the site uses. Pure.

use std::fmt;

use anyhow::Result;

use crate::exit::ExitStatus;

/// Ends the function with an error that names what the user can pass.
macro_rules! refuse {
    ($($arg:tt)*) => { return Err(ExitStatus::Refused.error(format!($($arg)*))) };
}

/// An object that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name or path, for people.
    pub name: String,
    /// Its MoID or id.
    pub id: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.id)
    }
}

/// A chosen object, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The kind, for people, such as `datastore`.
    pub what: &'static str,
    /// The object.
    pub chosen: Candidate,
    /// The reason.
    pub reason: String,
}

/// A choice that the site needs: the kind of the object, and the flag that names it.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The kind, for people.
    pub what: &'static str,
    /// The flag, such as `--datastore`.
    pub flag: &'static str,
    /// The condition that all candidates meet, such as ` that all hosts of the cluster have`; empty if every object of the kind fits.
    pub condition: &'static str,
}

impl Question {
    /// A question about all objects of a kind.
    pub const fn about(what: &'static str, flag: &'static str) -> Self {
        Self { what, flag, condition: "" }
    }

    /// Chooses the object that the flag names, or the only one.
    ///
    /// # Errors
    /// If the named object does not exist, if there is none, or if there are several and the flag is not given.
    pub fn choose(self, candidates: &[Candidate], named: Option<&str>) -> Result<Choice> {
        self.choose_or(candidates, named, || None)
    }

    /// As [`choose`](Self::choose), but of several objects the one that `preferred` returns, with the reason.
    ///
    /// # Errors
    /// As [`choose`](Self::choose), if `preferred` returns none.
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
