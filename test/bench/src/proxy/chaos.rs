//! Fault by chance, from a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::call::{ApiCall, Verb};

/// How long a call takes that times out in the end.
const LATE: Duration = Duration::from_millis(700);

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// It is refused with this status, reason and message; nothing is done.
    Refused(&'static str, u16, &'static str),
    /// Nothing is done, and the refusal comes late.
    Late(Duration),
    /// Everything is done, and the connection cut instead of an answer.
    Lost,
    /// The connection is cut; nothing is done.
    Cut,
}

/// What happens to a watch at one of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// The version is too old: 410, and the watch has to begin anew.
    Gone,
    Cut,
    /// The event comes late, and all that follow it.
    Late(Duration),
}

#[derive(Debug)]
pub struct Chaos(StdRng);

impl Chaos {
    /// The same seed throws the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// What happens to this call, if anything does.
    pub fn draw_api_fault(&mut self, call: &ApiCall) -> Option<ApiFault> {
        let (chance, kinds) = match call.verb {
            Verb::Write(_) => (0.12, 6),
            Verb::Get | Verb::List => (0.06, 3),
            Verb::Watch | Verb::Other => return None,
        };
        if !self.0.random_bool(chance) {
            return None;
        }
        Some(match self.0.random_range(0..kinds) {
            0 => ApiFault::Refused("api429", 429, "TooManyRequests"),
            1 => ApiFault::Refused("api500", 500, "InternalError"),
            2 => ApiFault::Cut,
            3 => ApiFault::Refused("api409", 409, "Conflict"),
            4 => ApiFault::Late(LATE),
            _ => ApiFault::Lost,
        })
    }

    /// What happens at this event, if anything does.
    pub fn draw_watch_fault(&mut self) -> Option<WatchFault> {
        if !self.0.random_bool(0.03) {
            return None;
        }
        Some(match self.0.random_range(0..3) {
            0 => WatchFault::Gone,
            1 => WatchFault::Cut,
            _ => WatchFault::Late(Duration::from_millis(self.0.random_range(50..400))),
        })
    }
}
