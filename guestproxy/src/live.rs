//! Counts the objects in a manager's caches, from the watches that fill them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use parking_lot::Mutex;

use crate::limits;

/// The cached objects from all clusters. Each cluster has its own allowance. Beyond their own allowances, all clusters share
/// another allowance.
#[derive(Default)]
pub struct CachedObjects {
    state: Mutex<State>,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    guests: HashMap<String, Guest>,
    /// All clusters' bytes beyond their allowances.
    more: usize,
}

#[derive(Default)]
struct Guest {
    bytes: usize,
    /// The bytes beyond the cluster's allowance.
    more: usize,
    watches: HashMap<String, Watched>,
}

#[derive(Default)]
struct Watched {
    /// Object sizes by a hash of namespace and name.
    objects: HashMap<u64, usize>,
    bytes: usize,
    refused_until: Option<Instant>,
}

/// The change that a watch event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// The object exists, with this estimated size.
    Is(usize),
    /// The object was deleted.
    Gone,
}

/// The error for a cluster that has more objects than its limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl CachedObjects {
    /// Begins a watch for the objects that `path` selects. If `sends_all` is true, the watch sends all objects first, so the
    /// objects from earlier watches no longer count. `guest` is the cluster's UID.
    ///
    /// # Errors
    /// Returns an error if an earlier watch for `path` exceeded the limit a short time ago.
    pub fn begin(&self, guest: &str, path: &str, sends_all: bool, now: Instant) -> Result<(), TooMany> {
        let mut state = self.state.lock();
        let watched = state.guests.get_mut(guest).and_then(|guest| guest.watches.get_mut(path));
        let Some(watched) = watched else { return Ok(()) };
        if watched.refused_until.is_some_and(|until| now < until) {
            return Err(TooMany);
        }
        if sends_all {
            state.forget(guest, path);
        }
        Ok(())
    }

    /// Counts an event of the watch for `path` in the cluster with the UID `guest`. The tuple is the object's namespace and name.
    ///
    /// # Errors
    /// Returns an error if the object grows, the cluster exceeds its own `allowance`, and either the cluster's part of the shared
    /// allowance or the whole shared allowance is used up. The caller must then end the watch. Its objects no longer count,
    /// because the manager lists them again.
    pub fn count(
        &self,
        guest: &str,
        path: &str,
        (namespace, name): (&str, &str),
        change: ObjectChange,
        allowance: usize,
        now: Instant,
    ) -> Result<(), TooMany> {
        let key = self.hasher.hash_one((namespace, name));
        let mut state = self.state.lock();
        let State { guests, more } = &mut *state;
        let of_guest = guests.entry(guest.to_owned()).or_default();
        let watched = of_guest.watches.entry(path.to_owned()).or_default();
        let (old, new) = match change {
            ObjectChange::Is(size) => {
                let size = size.max(limits::OBJECT);
                (watched.objects.insert(key, size).unwrap_or_default(), size)
            }
            ObjectChange::Gone => (watched.objects.remove(&key).unwrap_or_default(), 0),
        };
        watched.bytes = watched.bytes - old + new;
        of_guest.bytes = of_guest.bytes - old + new;
        let before = of_guest.more;
        of_guest.more = of_guest.bytes.saturating_sub(allowance);
        *more = *more - before + of_guest.more;
        let grows = new > old;
        if grows
            && (of_guest.more > limits::MORE_CACHED_OF_A_GUEST
                || (of_guest.more > 0 && *more > limits::MORE_CACHED))
        {
            state.forget(guest, path);
            if let Some(of_guest) = state.guests.get_mut(guest) {
                let watched = of_guest.watches.entry(path.to_owned()).or_default();
                watched.refused_until = Some(now + limits::REFUSED_FOR);
            }
            return Err(TooMany);
        }
        Ok(())
    }

    /// Forgets the clusters for which `remains` returns false.
    pub fn retain(&self, remains: impl Fn(&str) -> bool) {
        let mut state = self.state.lock();
        let State { guests, more } = &mut *state;
        guests.retain(|guest, of_guest| {
            let remains = remains(guest);
            if !remains {
                *more -= of_guest.more;
            }
            remains
        });
    }
}

impl State {
    fn forget(&mut self, guest: &str, path: &str) {
        let Some(of_guest) = self.guests.get_mut(guest) else { return };
        let Some(watched) = of_guest.watches.remove(path) else { return };
        of_guest.bytes -= watched.bytes;
        let less = of_guest.more.min(watched.bytes);
        of_guest.more -= less;
        self.more -= less;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: &str = "/api/v1/nodes?";

    fn add(live: &CachedObjects, guest: &str, name: &str, size: usize) -> Result<(), TooMany> {
        live.count(guest, NODES, ("", name), ObjectChange::Is(size), 1 << 20, Instant::now())
    }

    #[test]
    fn an_endless_watch_of_new_objects_is_ended_and_refused_for_a_while() {
        let live = CachedObjects::default();
        let now = Instant::now();
        let added = (0..100_000).find(|n| add(&live, "a", &n.to_string(), 10).is_err()).unwrap();
        assert_eq!(added, (limits::MORE_CACHED_OF_A_GUEST + (1 << 20)) / limits::OBJECT);
        assert_eq!(live.begin("a", NODES, true, now), Err(TooMany));
        assert_eq!(live.begin("a", "/api/v1/pods?", true, now), Ok(()));
        let later = now + limits::REFUSED_FOR + limits::PIECE;
        assert_eq!(live.begin("a", NODES, true, later), Ok(()));
        assert_eq!(live.state.lock().more, 0);
        assert_eq!(add(&live, "a", "x", 10), Ok(()), "the manager lists anew");
    }

    #[test]
    fn objects_that_change_or_go_count_once() {
        let live = CachedObjects::default();
        for n in 0..100_000 {
            assert_eq!(add(&live, "a", "one", 900 << 10), Ok(()));
            let name = format!("short-lived-{n}");
            assert_eq!(add(&live, "a", &name, 10), Ok(()));
            live.count("a", NODES, ("", &name), ObjectChange::Gone, 1 << 20, Instant::now()).unwrap();
        }
    }

    #[test]
    fn hostile_clusters_together_leave_others_their_own() {
        let live = CachedObjects::default();
        for guest in 0..50 {
            for n in 0..20 {
                let _ = add(&live, &format!("hostile-{guest}"), &n.to_string(), 1 << 20);
            }
            // Clusters fill up again after a watch was ended.
            let filled = live.state.lock().more;
            assert!(filled <= limits::MORE_CACHED, "{filled}");
        }
        assert_eq!(add(&live, "good", "a", 1 << 20), Ok(()));
    }

    #[test]
    fn a_watch_that_sends_all_replaces_what_was_there_and_others_do_not() {
        let live = CachedObjects::default();
        let bytes = |live: &CachedObjects| live.state.lock().guests["a"].bytes;
        add(&live, "a", "x", 9000).unwrap();
        live.begin("a", NODES, false, Instant::now()).unwrap();
        assert_eq!(bytes(&live), 9000);
        live.begin("a", NODES, true, Instant::now()).unwrap();
        assert_eq!(bytes(&live), 0);
        add(&live, "a", "x", 3 << 20).unwrap();
        live.retain(|guest| guest != "a");
        assert_eq!(live.state.lock().more, 0);
    }

    proptest! {
        #[test]
        fn the_sums_are_those_of_the_objects(
            events in prop::collection::vec((0..3_u8, 0..2_u8, 0..6_u8, prop::option::of(0..9_000_000_usize)), 0..80)
        ) {
            let live = CachedObjects::default();
            let now = Instant::now();
            for (guest, path, name, size) in events {
                let (guest, path, name) = (guest.to_string(), path.to_string(), name.to_string());
                let change = size.map_or(ObjectChange::Gone, ObjectChange::Is);
                let _ = live.count(&guest, &path, ("n", &name), change, 1 << 20, now);
                let state = live.state.lock();
                let mut more = 0;
                for of_guest in state.guests.values() {
                    let bytes: usize = of_guest.watches.values().map(|watched| watched.objects.values().sum::<usize>()).sum();
                    prop_assert_eq!(of_guest.bytes, bytes);
                    prop_assert!(of_guest.more <= limits::MORE_CACHED_OF_A_GUEST);
                    more += of_guest.more;
                }
                prop_assert_eq!(state.more, more);
            }
        }
    }
}
