//! Misfortune by chance, from a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::call::{Call, Verb};

/// How long a call takes that times out in the end.
const LATE: Duration = Duration::from_millis(700);

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It is refused with this status, reason and message; nothing is done.
    Refused(&'static str, u16, &'static str),
    /// Nothing is done, and that is said late.
    Late(Duration),
    /// Everything is done, and the connection cut instead of an answer.
    Lost,
    /// The connection is cut; nothing is done.
    Cut,
}

/// What happens to a watch at one of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The version is too old: 410, and the watch has to begin anew.
    Gone,
    /// The connection is cut.
    Cut,
    /// The event comes late, and all that follow it.
    Late(Duration),
}

/// The dice.
#[derive(Debug)]
pub struct Chaos(StdRng);

impl Chaos {
    /// The same seed throws the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// What happens to this call, if anything does.
    pub fn strike(&mut self, call: &Call) -> Option<Strike> {
        let (chance, kinds) = match call.verb {
            Verb::Write(_) => (0.12, 6),
            Verb::Get | Verb::List => (0.06, 3),
            Verb::Watch | Verb::Other => return None,
        };
        if !self.0.random_bool(chance) {
            return None;
        }
        Some(match self.0.random_range(0..kinds) {
            0 => Strike::Refused("api429", 429, "TooManyRequests"),
            1 => Strike::Refused("api500", 500, "InternalError"),
            2 => Strike::Cut,
            3 => Strike::Refused("api409", 409, "Conflict"),
            4 => Strike::Late(LATE),
            _ => Strike::Lost,
        })
    }

    /// What happens at this event, if anything does.
    pub fn breaks(&mut self) -> Option<Break> {
        if !self.0.random_bool(0.03) {
            return None;
        }
        Some(match self.0.random_range(0..3) {
            0 => Break::Gone,
            1 => Break::Cut,
            _ => Break::Late(Duration::from_millis(self.0.random_range(50..400))),
        })
    }
}
