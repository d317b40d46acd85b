//! A fair queue for a limited number of permits that several shares, such as namespaces, use. It doesn't depend on async
//! tasks: a waiter is any value that the owner can wake.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// The maximum number of permits for one share.
#[derive(Clone, Copy, Debug)]
enum Most {
    Fixed(usize),
    /// Half of the permits: a share can take another permit while it holds fewer permits than are free.
    Half,
}

/// A limited number of permits that shares take, and the queue of waiters (`W`) for permits.
///
/// The share that holds the fewest permits is served first. If shares hold equally many, the share whose first waiter has
/// waited longest is served first. Except for [`Places::retain`], each operation takes O(log n) time for n waiting shares.
#[derive(Debug)]
pub struct Places<W> {
    width: usize,
    most: Most,
    taken: usize,
    shares: HashMap<Arc<str>, Share<W>>,
    /// The shares with waiters: the number of held permits, the first waiter's arrival number, and the share's name.
    waiting: BTreeSet<(usize, u64, Arc<str>)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Share<W> {
    taken: usize,
    queue: VecDeque<(u64, W)>,
}

impl<W> Places<W> {
    /// Creates a queue with `width` permits. Each share can hold at most `per_share` permits.
    pub fn new(width: usize, per_share: usize) -> Self {
        Self::with(width, Most::Fixed(per_share))
    }

    /// Creates a queue with `width` permits. A share can take another permit only while it holds fewer permits than are free.
    ///
    /// Thus a single share gets half of the permits, the next share half of the rest, and so on. After about log2(`width`) shares
    /// hold their maximum, new shares have to wait.
    pub fn halved(width: usize) -> Self {
        Self::with(width, Most::Half)
    }

    fn with(width: usize, most: Most) -> Self {
        Self { width, most, taken: 0, shares: HashMap::new(), waiting: BTreeSet::new(), arrivals: 0 }
    }

    /// Takes a permit for `share`. Returns false if the share can't have another permit now.
    pub fn take(&mut self, share: &str) -> bool {
        let taken = self.shares.get(share).map_or(0, |share| share.taken);
        let free = self.admits(taken);
        if free {
            self.change(share, |share| share.taken += 1);
            self.taken += 1;
        }
        free
    }

    /// Queues `waiter` for a permit for `share`.
    pub fn wait(&mut self, share: &str, waiter: W) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.change(share, |share| share.queue.push_back((arrival, waiter)));
    }

    /// Releases a permit that `share` holds.
    pub fn leave(&mut self, share: &str) {
        self.change(share, |share| share.taken = share.taken.saturating_sub(1));
        self.taken = self.taken.saturating_sub(1);
    }

    /// Takes a permit for the next waiter, and returns the waiter with its share. Returns `None` if there are no waiters, or if
    /// none of them can have a permit now.
    pub fn take_next(&mut self) -> Option<(Arc<str>, W)> {
        let (taken, _, share) = self.waiting.first()?;
        // If the share with the fewest permits can't get another permit, the other shares can't either.
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

    /// Keeps only those waiters for `share` for which `keeps` returns true.
    pub fn retain(&mut self, share: &str, keeps: impl Fn(&W) -> bool) {
        self.change(share, |share| share.queue.retain(|(_, waiter)| keeps(waiter)));
    }

    /// Returns the number of waiters for `share`.
    pub fn waiting(&self, share: &str) -> usize {
        self.shares.get(share).map_or(0, |share| share.queue.len())
    }

    /// Returns true if all permits are free and the queue is empty.
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

    /// Changes a share and updates its entry in `waiting`.
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
