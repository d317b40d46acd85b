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

impl Most {
    /// Returns true if a share that holds `taken` permits may take `amount` more, if enough are free.
    fn allows(self, taken: usize, amount: usize) -> bool {
        match self {
            Self::Fixed(most) => taken.saturating_add(amount) <= most,
            Self::Half => true,
        }
    }
}

/// A limited number of permits that shares take, and the queue of waiters (`W`) for permits.
///
/// The share that holds the fewest permits is served first. If shares hold equally many, the share whose first waiter has
/// waited longest is served first. A waiter that needs more permits than are free keeps its turn: waiters after it aren't
/// served, unless the limit of its own share blocks it. Each operation takes O(log n) time for n waiting shares;
/// [`PermitQueue::give_up`] also takes time in proportion to the queue of its share.
#[derive(Debug)]
pub struct PermitQueue<W> {
    width: usize,
    most: Most,
    taken: usize,
    shares: HashMap<Arc<str>, Share<W>>,
    /// The shares whose own limit admits their first waiter: the number of held permits, the first waiter's arrival number, and
    /// the share's name.
    waiting: BTreeSet<(usize, u64, Arc<str>)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Share<W> {
    taken: usize,
    queue: VecDeque<Queued<W>>,
}

#[derive(Debug)]
struct Queued<W> {
    arrival: u64,
    amount: usize,
    waiter: W,
}

/// Identifies a waiter in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u64);

/// The permits that a waiter was given.
#[derive(Debug, PartialEq, Eq)]
pub struct Granted<W> {
    /// The share that took the permits.
    pub share: Arc<str>,
    /// The number of permits.
    pub amount: usize,
    /// The waiter.
    pub waiter: W,
}

impl<W> PermitQueue<W> {
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

    /// Takes `amount` permits for `share`. Returns false if the share can't have them now, or if a waiter comes first.
    pub fn take(&mut self, share: &str, amount: usize) -> bool {
        let (taken, queues) =
            self.shares.get(share).map_or((0, false), |share| (share.taken, !share.queue.is_empty()));
        let comes_later = self.waiting.first().is_some_and(|(first, ..)| *first <= taken);
        let free = !queues && !comes_later && self.admits(taken, amount);
        if free {
            self.change(share, |share| share.taken += amount);
            self.taken += amount;
        }
        free
    }

    /// Queues `waiter` for `amount` permits for `share`.
    pub fn wait(&mut self, share: &str, amount: usize, waiter: W) -> Ticket {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.change(share, |share| share.queue.push_back(Queued { arrival, amount, waiter }));
        Ticket(arrival)
    }

    /// Removes a waiter for `share` from the queue. Returns `None` if the waiter isn't in the queue anymore. Call
    /// [`Self::take_next`] afterwards, because the waiter may have been the only obstacle for others.
    pub fn give_up(&mut self, share: &str, Ticket(arrival): Ticket) -> Option<W> {
        let queue = &self.shares.get(share)?.queue;
        let at = queue.binary_search_by_key(&arrival, |waiter| waiter.arrival).ok()?;
        let mut removed = None;
        self.change(share, |share| removed = share.queue.remove(at));
        removed.map(|waiter| waiter.waiter)
    }

    /// Releases `amount` permits that `share` holds.
    pub fn leave(&mut self, share: &str, amount: usize) {
        self.change(share, |share| share.taken = share.taken.saturating_sub(amount));
        self.taken = self.taken.saturating_sub(amount);
    }

    /// Takes permits for the next waiter, and returns them with the waiter. Returns `None` if there are no waiters, or if the next
    /// one can't have its permits now.
    pub fn take_next(&mut self) -> Option<Granted<W>> {
        let (taken, _, share) = self.waiting.first()?;
        let amount = self.shares.get(share)?.queue.front()?.amount;
        if !self.admits(*taken, amount) {
            return None;
        }
        let share = Arc::clone(share);
        let mut next = None;
        self.change(&share, |share| {
            next = share.queue.pop_front();
            share.taken += amount;
        });
        self.taken += amount;
        next.map(|Queued { waiter, .. }| Granted { share, amount, waiter })
    }

    /// Returns true if all permits are free and the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    fn admits(&self, taken: usize, amount: usize) -> bool {
        let free = self.width.saturating_sub(self.taken);
        match self.most {
            Most::Fixed(_) => amount <= free && self.most.allows(taken, amount),
            Most::Half => amount <= free.saturating_sub(taken),
        }
    }

    /// Changes a share and updates its entry in `waiting`.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Share<W>)) {
        let name = match self.shares.get_key_value(name) {
            Some((name, share)) => {
                if let Some(first) = share.queue.front() {
                    self.waiting.remove(&(share.taken, first.arrival, Arc::clone(name)));
                }
                Arc::clone(name)
            }
            None => Arc::from(name),
        };
        let share = self.shares.entry(Arc::clone(&name));
        let share = share.or_insert_with(|| Share { taken: 0, queue: VecDeque::new() });
        change(share);
        match share.queue.front() {
            Some(first) if self.most.allows(share.taken, first.amount) => {
                self.waiting.insert((share.taken, first.arrival, name));
            }
            Some(_) => {}
            None if share.taken == 0 => drop(self.shares.remove(&name)),
            None => share.queue = VecDeque::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted<W>(share: &str, amount: usize, waiter: W) -> Granted<W> {
        Granted { share: share.into(), amount, waiter }
    }

    #[test]
    fn a_share_takes_no_more_places_than_it_leaves_to_others() {
        let mut places = PermitQueue::<()>::halved(1000);
        let mut held = Vec::new();
        for share in ["a", "b", "c", "d"] {
            held.push(std::iter::repeat_with(|| places.take(share, 1)).take_while(|&taken| taken).count());
        }
        assert_eq!(held, [500, 250, 125, 63]);
        assert!(places.take("e", 1), "the next share gets a permit");
        assert!(PermitQueue::<()>::halved(1).take("a", 1), "the only place is one");
    }

    #[test]
    fn who_waits_comes_in_the_order_of_what_its_share_has() {
        let mut places = PermitQueue::new(4, 3);
        assert!((0..3).all(|_| places.take("a", 1)) && !places.take("a", 1) && places.take("b", 1));
        let mut last = None;
        for (share, waiter) in [("a", 1), ("a", 2), ("b", 3), ("c", 4)] {
            let ticket = places.wait(share, 1, waiter);
            last = if waiter == 2 { Some(ticket) } else { last };
        }
        assert_eq!(places.take_next(), None);
        places.leave("a", 1);
        assert_eq!(places.take_next(), Some(granted("c", 1, 4)));
        places.leave("a", 1);
        assert_eq!(places.take_next(), Some(granted("a", 1, 1)), "a and b have one each, and it came first");
        places.leave("b", 1);
        assert_eq!(places.take_next(), Some(granted("b", 1, 3)));
        assert_eq!(places.take_next(), None);
        assert_eq!(places.give_up("a", last.unwrap()), Some(2));
        assert_eq!(places.give_up("a", last.unwrap()), None);
        for share in ["a", "a", "b", "c"] {
            places.leave(share, 1);
        }
        assert!(places.is_empty());
    }

    #[test]
    fn a_waiter_for_many_permits_is_not_overtaken() {
        let mut places = PermitQueue::new(10, 8);
        assert!(places.take("a", 7));
        places.wait("b", 5, "large");
        assert!(!places.take("b", 1), "its own share waits");
        assert!(!places.take("c", 1), "it came first");
        places.wait("c", 1, "small");
        assert_eq!(places.take_next(), None);
        places.leave("a", 2);
        assert_eq!(places.take_next(), Some(granted("b", 5, "large")));
        assert_eq!(places.take_next(), None);
    }

    #[test]
    fn a_waiter_that_its_own_share_blocks_holds_up_no_other_share() {
        let mut places = PermitQueue::new(10, 4);
        assert!(places.take("a", 3));
        let blocked = places.wait("a", 2, "large");
        places.wait("a", 1, "small");
        assert!(places.take("b", 4) && places.take("c", 1));
        assert_eq!(places.take_next(), None);
        assert_eq!(places.give_up("a", blocked), Some("large"));
        assert_eq!(places.take_next(), Some(granted("a", 1, "small")));
    }

    #[test]
    fn ten_thousand_that_wait_cost_no_scan_each() {
        let mut places = PermitQueue::new(1, 1);
        assert!(places.take("0", 1));
        for waiter in 0..100_000_u32 {
            places.wait(&(waiter % 1000).to_string(), 1, waiter);
        }
        places.leave("0", 1);
        let mut served = 0;
        while let Some(Granted { share, .. }) = places.take_next() {
            served += 1;
            places.leave(&share, 1);
        }
        assert_eq!(served, 100_000);
    }
}
