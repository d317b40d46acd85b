//! The faults to inject, and the calls and events so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;

use super::chaos::Chaos;

/// The key of a write or event, which identifies it across runs: verb and resource, object, and occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseKey {
    pub side: Side,
    /// Verb and resource, or the vCenter method.
    pub what: String,
    /// The object's name. May be empty.
    pub object: String,
    pub nth: u32,
}

/// The place where a write or event occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// A write to the API server.
    Api,
    /// A mutating vCenter call.
    Vcenter,
    /// A watch event.
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

/// Counts occurrences by key.
#[derive(Debug, Default)]
pub struct KeyCounter {
    seen: HashMap<(Side, String, String), u32>,
    order: Vec<CaseKey>,
}

impl KeyCounter {
    /// Counts an occurrence and returns its key.
    pub fn count(&mut self, side: Side, what: String, object: String) -> CaseKey {
        let nth = self.seen.entry((side, what.clone(), object.clone())).or_default();
        *nth += 1;
        let key = CaseKey { side, what, object, nth: *nth };
        self.order.push(key.clone());
        key
    }

    /// Returns all keys so far, in order.
    pub fn all(&self) -> Vec<CaseKey> {
        self.order.clone()
    }
}

/// The point at which a call is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkPoint {
    /// Before the call is carried out.
    Before,
    /// After the call is carried out and before the response is sent.
    After,
}

/// A call to park forever.
#[derive(Clone, Debug)]
pub struct Park {
    pub key: CaseKey,
    pub point: ParkPoint,
    /// Becomes true when the call is parked.
    pub reached: watch::Sender<bool>,
}

/// A write to park forever, whatever its object.
#[derive(Clone, Debug)]
pub struct NextPark {
    /// Verb and resource.
    pub what: String,
    pub point: ParkPoint,
    /// Becomes true when the write is parked.
    pub reached: watch::Sender<bool>,
}

/// The faults to inject, and all calls and events so far.
#[derive(Debug, Default)]
pub struct Injections {
    pub writes: KeyCounter,
    pub events: KeyCounter,
    /// The call to park.
    pub park: Option<Park>,
    /// The next write to park, by verb and resource.
    pub next: Option<NextPark>,
    /// The event to delay, and the delay.
    pub hold: Option<(CaseKey, Duration)>,
    /// The resource version at which lists show collections. Watches wait until the sender becomes true.
    pub travel: Option<(String, watch::Receiver<bool>)>,
    /// The resources that clients have watched.
    pub watched: BTreeSet<String>,
    pub chaos: Option<Chaos>,
    pub injected: BTreeMap<&'static str, u64>,
}

impl Injections {
    /// Counts one injected fault.
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
