//! Places that shares have in common, and who waits for one. Knows no tasks: who waits is whatever the owner of the places
//! can wake.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// How many places one share gets at most.
#[derive(Clone, Copy, Debug)]
enum Most {
    /// So many.
    Fixed(usize),
    /// As many as are left to the others.
    Half,
}

/// Places, each of which is taken by a share; in front of them, those that wait, as `W`.
///
/// Whoever waits comes in the order of how many places its share has, the fewest first, and then in the order of arrival.
/// A step costs the logarithm of the number of shares that wait.
#[derive(Debug)]
pub struct Places<W> {
    width: usize,
    most: Most,
    taken: usize,
    shares: HashMap<Arc<str>, Share<W>>,
    /// The shares that have somebody waiting: places they hold, who came first, and their name.
    waiting: BTreeSet<(usize, u64, Arc<str>)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Share<W> {
    taken: usize,
    queue: VecDeque<(u64, W)>,
}

impl<W> Places<W> {
    /// So many places, of which one share gets `per_share` at most.
    pub fn new(width: usize, per_share: usize) -> Self {
        Self::with(width, Most::Fixed(per_share))
    }

    /// So many places, of which a share takes another only while it holds fewer than are free.
    ///
    /// So one share alone gets half of them, the next half of what is left, and so on: there is a place for whoever comes
    /// next, until as many shares hold all they can get as the width can be halved.
    pub fn halved(width: usize) -> Self {
        Self::with(width, Most::Half)
    }

    fn with(width: usize, most: Most) -> Self {
        Self { width, most, taken: 0, shares: HashMap::new(), waiting: BTreeSet::new(), arrivals: 0 }
    }

    /// Takes a place for `share`, if it may have one.
    pub fn take(&mut self, share: &str) -> bool {
        let taken = self.shares.get(share).map_or(0, |share| share.taken);
        let free = self.admits(taken);
        if free {
            self.change(share, |share| share.taken += 1);
            self.taken += 1;
        }
        free
    }

    /// Has `waiter` wait for a place of `share`.
    pub fn wait(&mut self, share: &str, waiter: W) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.change(share, |share| share.queue.push_back((arrival, waiter)));
    }

    /// Gives back a place of `share`.
    pub fn leave(&mut self, share: &str) {
        self.change(share, |share| share.taken = share.taken.saturating_sub(1));
        self.taken = self.taken.saturating_sub(1);
    }

    /// Whoever is next of those that wait, if there is a place, which is taken for it.
    pub fn take_next(&mut self) -> Option<(Arc<str>, W)> {
        let (taken, _, share) = self.waiting.first()?;
        // If the share with the fewest gets none, no other does.
        if !self.admits(*taken) {
            return None;
        }
        let share = Arc::clone(share);
        let mut next = None;
        self.change(&share, |share| {
            next = share.queue.pop_front();
            share.taken += 1;
        });
        self.taken += 1;
        next.map(|(_, waiter)| (share, waiter))
    }

    /// Forgets those of `share` that wait and of which `keeps` says no.
    pub fn retain(&mut self, share: &str, keeps: impl Fn(&W) -> bool) {
        self.change(share, |share| share.queue.retain(|(_, waiter)| keeps(waiter)));
    }

    /// How many of `share` wait.
    pub fn waiting(&self, share: &str) -> usize {
        self.shares.get(share).map_or(0, |share| share.queue.len())
    }

    /// Whether nobody has a place or waits for one.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    fn admits(&self, taken: usize) -> bool {
        let free = self.width.saturating_sub(self.taken);
        match self.most {
            Most::Fixed(most) => free > 0 && taken < most,
            Most::Half => taken < free,
        }
    }

    /// Changes a share, and its row among those that wait.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Share<W>)) {
        let name = match self.shares.get_key_value(name) {
            Some((name, share)) => {
                if let Some((arrival, _)) = share.queue.front() {
                    self.waiting.remove(&(share.taken, *arrival, Arc::clone(name)));
                }
                Arc::clone(name)
            }
            None => Arc::from(name),
        };
        let share = self.shares.entry(Arc::clone(&name));
        let share = share.or_insert_with(|| Share { taken: 0, queue: VecDeque::new() });
        change(share);
        match share.queue.front() {
            Some((arrival, _)) => drop(self.waiting.insert((share.taken, *arrival, name))),
            None if share.taken == 0 => drop(self.shares.remove(&name)),
            None => share.queue = VecDeque::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_takes_no_more_places_than_it_leaves_to_others() {
        let mut places = Places::<()>::halved(1000);
        let mut held = Vec::new();
        for share in ["a", "b", "c", "d"] {
            held.push(std::iter::repeat_with(|| places.take(share)).take_while(|&taken| taken).count());
        }
        assert_eq!(held, [500, 250, 125, 63]);
        assert!(places.take("e"), "whoever comes next gets a place");
        assert!(Places::<()>::halved(1).take("a"), "the only place is one");
    }

    #[test]
    fn who_waits_comes_in_the_order_of_what_its_share_has() {
        let mut places = Places::new(4, 3);
        assert!((0..3).all(|_| places.take("a")) && !places.take("a") && places.take("b"));
        for (share, waiter) in [("a", 1), ("a", 2), ("b", 3), ("c", 4)] {
            places.wait(share, waiter);
        }
        assert_eq!(places.take_next(), None);
        places.leave("a");
        assert_eq!(places.take_next(), Some(("c".into(), 4)));
        places.leave("a");
        assert_eq!(places.take_next(), Some(("a".into(), 1)), "a and b have one each, and it came first");
        places.leave("b");
        assert_eq!(places.take_next(), Some(("b".into(), 3)));
        assert_eq!(places.take_next(), None);
        assert_eq!(places.waiting("a"), 1);
        places.retain("a", |_| false);
        for share in ["a", "a", "b", "c"] {
            places.leave(share);
        }
        assert!(places.is_empty());
    }

    #[test]
    fn ten_thousand_that_wait_cost_no_scan_each() {
        let mut places = Places::new(1, 1);
        assert!(places.take("0"));
        (0..100_000_u32).for_each(|waiter| places.wait(&(waiter % 1000).to_string(), waiter));
        places.leave("0");
        let mut served = 0;
        while let Some((share, _)) = places.take_next() {
            served += 1;
            places.leave(&share);
        }
        assert_eq!(served, 100_000);
    }
}
