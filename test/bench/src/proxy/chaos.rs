//! Draws random faults from a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::call::{ApiCall, Verb};

/// The delay before a call times out.
const LATE: Duration = Duration::from_millis(700);

/// A fault in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// The call isn't carried out. The response has this status code and reason; the first field is the fault's name
    /// in reports.
    Refused(&'static str, u16, &'static str),
    /// The call isn't carried out, and times out after this delay.
    Late(Duration),
    /// The call is carried out, but the connection is cut before the response.
    Lost,
    /// The call isn't carried out, and the connection is cut.
    Cut,
}

/// A fault at a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// The resource version is too old (410), so the client must restart the watch.
    Gone,
    Cut,
    /// The event and all later ones are delayed.
    Late(Duration),
}

#[derive(Debug)]
pub struct Chaos(StdRng);

impl Chaos {
    /// Creates a generator. The same seed yields the same faults.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Draws the fault for this call, if any.
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

    /// Draws the fault for this event, if any.
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
