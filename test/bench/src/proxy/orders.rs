//! What is to happen to which call, and what has happened so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;

use super::chaos::Chaos;

/// One write or event, named so that it is found again in another run: what, of which object, for the how-many-eth time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Where it is made.
    pub side: Side,
    /// Verb and resource, or method.
    pub what: String,
    /// The object's name; may be empty.
    pub object: String,
    /// From 1.
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

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Api => "api",
            Side::Vcenter => "vcenter",
            Side::Event => "event",
        };
        write!(f, "{side}|{}|{}|{}", self.what, self.object, self.nth)
    }
}

impl FromStr for Key {
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
pub struct Counted {
    seen: HashMap<(Side, String, String), u32>,
    order: Vec<Key>,
}

impl Counted {
    /// The key of what happens now.
    pub fn note(&mut self, side: Side, what: String, object: String) -> Key {
        let nth = self.seen.entry((side, what.clone(), object.clone())).or_default();
        *nth += 1;
        let key = Key { side, what, object, nth: *nth };
        self.order.push(key.clone());
        key
    }

    /// Everything so far, in its order.
    pub fn all(&self) -> Vec<Key> {
        self.order.clone()
    }
}

/// When a call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before anything of it is done.
    Before,
    /// When it is done, and nobody knows yet.
    After,
}

/// A call to be stopped for good, and whether it came.
#[derive(Clone, Debug)]
pub struct Park {
    /// Which call.
    pub key: Key,
    /// When in its course.
    pub moment: Moment,
    /// Turns true when it is stopped there.
    pub reached: watch::Sender<bool>,
}

/// Everything that is ordered, and everything that is counted.
#[derive(Debug, Default)]
pub struct Orders {
    /// Writes so far.
    pub writes: Counted,
    /// Events so far.
    pub events: Counted,
    /// The call to be stopped.
    pub park: Option<Park>,
    /// The event to be held back, and how long.
    pub hold: Option<(Key, Duration)>,
    /// Lists show the collection as it was at this version; watches go on from there once the sender says so.
    pub travel: Option<(String, watch::Receiver<bool>)>,
    /// The resources that are watched.
    pub watched: BTreeSet<String>,
    /// Misfortune by chance.
    pub chaos: Option<Chaos>,
    /// What was done to the caller, by kind.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Orders {
    /// Counts one more misfortune.
    pub fn struck(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_again() {
        let mut counted = Counted::default();
        let note = |counted: &mut Counted| {
            counted.note(Side::Api, "PATCH virtualmachines/status".into(), "a".into())
        };
        assert_eq!(note(&mut counted).nth, 1);
        let key = note(&mut counted);
        assert_eq!(key.to_string(), "api|PATCH virtualmachines/status|a|2");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("api|x".parse::<Key>().is_err());
        assert_eq!(counted.all().len(), 2);
    }
}
