//! What is to happen to which call, and what has happened so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;

use super::chaos::Chaos;

/// One write or event, named so that it is found again in another run: what, of which object, for the how-many-eth time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseKey {
    pub side: Side,
    /// Verb and resource, or method.
    pub what: String,
    /// The object's name; may be empty.
    pub object: String,
    pub nth: u32,
}

/// Where a write is made, or an event seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// A write to the API server.
    Api,
    /// A call of vCenter that changes something.
    Vcenter,
    /// An event of a watch.
    Event,
}

impl fmt::Display for CaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Api => "api",
            Side::Vcenter => "vcenter",
            Side::Event => "event",
        };
        write!(f, "{side}|{}|{}|{}", self.what, self.object, self.nth)
    }
}

impl FromStr for CaseKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not SIDE|WHAT|OBJECT|NTH");
        let [side, what, object, nth] = text.split('|').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let side = match side {
            "api" => Side::Api,
            "vcenter" => Side::Vcenter,
            "event" => Side::Event,
            _ => return Err(wrong()),
        };
        let nth = nth.parse().map_err(|_| wrong())?;
        Ok(Self { side, what: what.to_owned(), object: object.to_owned(), nth })
    }
}

/// Counts what happens by its name.
#[derive(Debug, Default)]
pub struct KeyCounter {
    seen: HashMap<(Side, String, String), u32>,
    order: Vec<CaseKey>,
}

impl KeyCounter {
    /// The key of what happens now.
    pub fn count(&mut self, side: Side, what: String, object: String) -> CaseKey {
        let nth = self.seen.entry((side, what.clone(), object.clone())).or_default();
        *nth += 1;
        let key = CaseKey { side, what, object, nth: *nth };
        self.order.push(key.clone());
        key
    }

    /// Everything so far, in its order.
    pub fn all(&self) -> Vec<CaseKey> {
        self.order.clone()
    }
}

/// When a call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkPoint {
    /// Before anything of it is done.
    Before,
    /// When it is done, and nobody knows yet.
    After,
}

/// A call to be stopped for good, and whether it came.
#[derive(Clone, Debug)]
pub struct Park {
    pub key: CaseKey,
    pub point: ParkPoint,
    /// Turns true when it is stopped there.
    pub reached: watch::Sender<bool>,
}

/// A write to be stopped for good, of whatever object.
#[derive(Clone, Debug)]
pub struct NextPark {
    /// Verb and resource.
    pub what: String,
    pub point: ParkPoint,
    /// Turns true when it is stopped there.
    pub reached: watch::Sender<bool>,
}

/// Faults to be injected, and all calls and events so far.
#[derive(Debug, Default)]
pub struct Injections {
    pub writes: KeyCounter,
    pub events: KeyCounter,
    /// The call to be stopped.
    pub park: Option<Park>,
    /// The next write of this verb and resource, to be stopped.
    pub next: Option<NextPark>,
    /// The event to be held back, and how long.
    pub hold: Option<(CaseKey, Duration)>,
    /// Lists show the collection as it was at this version; watches go on from there once the sender says so.
    pub travel: Option<(String, watch::Receiver<bool>)>,
    /// The resources that are watched.
    pub watched: BTreeSet<String>,
    pub chaos: Option<Chaos>,
    pub injected: BTreeMap<&'static str, u64>,
}

impl Injections {
    /// Counts one more injected fault.
    pub fn count_injected(&mut self, kind: &'static str) {
        *self.injected.entry(kind).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_again() {
        let mut counter = KeyCounter::default();
        let count = |counter: &mut KeyCounter| {
            counter.count(Side::Api, "PATCH virtualmachines/status".into(), "a".into())
        };
        assert_eq!(count(&mut counter).nth, 1);
        let key = count(&mut counter);
        assert_eq!(key.to_string(), "api|PATCH virtualmachines/status|a|2");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("api|x".parse::<CaseKey>().is_err());
        assert_eq!(counter.all().len(), 2);
    }
}
