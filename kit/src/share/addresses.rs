//! Divides a capacity between addresses, such as connections or body bytes.
//!
//! An address can't take more than its share. If the capacity is used up, an address that holds less takes from the address that
//! holds the most, so that a flood from some addresses doesn't keep out the others. This doesn't help if a stranger can use any
//! number of addresses, such as on loopback. Then the newest holder takes from the oldest instead ([`Shares::newest_first`]).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// A limited capacity that addresses share. Clones refer to the same capacity.
#[derive(Clone)]
pub struct Shares(Arc<Mutex<State>>);

struct State {
    capacity: usize,
    /// The maximum per address, or `None` if the newest holder takes from the oldest regardless of addresses.
    per_address: Option<usize>,
    taken: usize,
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    address: IpAddr,
    amount: usize,
    evicted: CancellationToken,
    /// True if the holder can't be evicted.
    settled: bool,
}

/// The part of the capacity that one connection or request holds, until this value is dropped.
pub struct Share {
    shares: Shares,
    id: u64,
    evicted: CancellationToken,
}

/// The error if the capacity that is left for an address is too small.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Shares {
    /// Shares out `capacity`, of which one address can hold at most `per_address`.
    pub fn new(capacity: usize, per_address: usize) -> Self {
        Self::with(capacity, Some(per_address))
    }

    /// Creates a capacity in which a newcomer evicts the oldest holders if the capacity is used up.
    pub fn newest_first(capacity: usize) -> Self {
        Self::with(capacity, None)
    }

    fn with(capacity: usize, per_address: Option<usize>) -> Self {
        let holders = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { capacity, per_address, taken: 0, next: 0, holders })))
    }

    /// Returns an empty share for a connection or request from `address`.
    pub fn enter(&self, address: IpAddr) -> Share {
        let mut state = self.0.lock();
        let id = state.next;
        state.next += 1;
        let evicted = CancellationToken::new();
        state.holders.insert(id, Holder { address, amount: 0, evicted: evicted.clone(), settled: false });
        Share { shares: self.clone(), id, evicted }
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        self.0.lock().taken
    }
}

impl Share {
    /// Takes `amount` more. If the capacity is used up, other shares may be evicted.
    ///
    /// # Errors
    /// [`Full`] if the capacity that is left for the address is too small, or if the share was evicted.
    pub fn take(&mut self, amount: usize) -> Result<(), Full> {
        let mut state = self.shares.0.lock();
        let address = state.holders.get(&self.id).ok_or(Full)?.address;
        let wanted = state.held_by(address) + amount;
        if state.per_address.is_some_and(|most| wanted > most) {
            return Err(Full);
        }
        while state.taken + amount > state.capacity {
            let victim = match state.per_address {
                Some(_) => state.largest(address, wanted),
                None => state.oldest(self.id),
            };
            state.evict(victim.ok_or(Full)?);
        }
        state.taken += amount;
        if let Some(holder) = state.holders.get_mut(&self.id) {
            holder.amount += amount;
        }
        Ok(())
    }

    /// Protects the share from eviction.
    ///
    /// # Errors
    /// [`Full`] if the share was evicted before.
    pub fn settle(&mut self) -> Result<(), Full> {
        self.shares.0.lock().holders.get_mut(&self.id).map(|holder| holder.settled = true).ok_or(Full)
    }

    /// Returns a token that is canceled when the share is evicted.
    pub fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }
}

impl State {
    fn held_by(&self, address: IpAddr) -> usize {
        let its = self.holders.values().filter(|holder| holder.address == address);
        its.map(|holder| holder.amount).sum()
    }

    /// Finds the address other than `address` that holds the most, and returns its largest holder that can be evicted. Returns
    /// `None` if that address doesn't hold more than `wanted`.
    fn largest(&self, address: IpAddr, wanted: usize) -> Option<u64> {
        let others = self.holders.iter().filter(|(_, holder)| holder.can_lose() && holder.address != address);
        let largest = others.max_by_key(|(id, holder)| {
            (self.held_by(holder.address), holder.amount, std::cmp::Reverse(**id))
        });
        largest.filter(|(_, holder)| self.held_by(holder.address) > wanted).map(|(id, _)| *id)
    }

    /// Returns the oldest holder that can be evicted, except `own`.
    fn oldest(&self, own: u64) -> Option<u64> {
        self.holders.iter().find(|(id, holder)| holder.can_lose() && **id != own).map(|(id, _)| *id)
    }

    fn evict(&mut self, id: u64) {
        if let Some(evicted) = self.holders.remove(&id) {
            self.taken -= evicted.amount;
            evicted.evicted.cancel();
        }
    }
}

impl Holder {
    fn can_lose(&self) -> bool {
        self.amount > 0 && !self.settled
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.shares.0.lock();
        if let Some(holder) = state.holders.remove(&self.id) {
            state.taken -= holder.amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn fill(shares: &Shares, address: IpAddr, count: usize) -> Vec<Share> {
        let taken = (0..count).map(|_| {
            let mut share = shares.enter(address);
            share.take(1).unwrap();
            share
        });
        taken.collect()
    }

    #[test]
    fn one_address_gets_its_share_and_no_more() {
        let shares = Shares::new(4, 3);
        let mut held = fill(&shares, peer(1), 3);
        assert_eq!(shares.enter(peer(1)).take(1), Err(Full));
        assert_eq!(shares.enter(peer(2)).take(1), Ok(()));
        held.pop();
        assert_eq!(shares.enter(peer(1)).take(1), Ok(()));
        drop(held);
        assert_eq!(shares.taken(), 0);
    }

    #[test]
    fn who_holds_less_takes_from_who_holds_the_most() {
        let shares = Shares::new(4, 3);
        let (most, few) = (fill(&shares, peer(1), 3), fill(&shares, peer(2), 1));
        let mut newcomer = shares.enter(peer(3));
        assert_eq!(newcomer.take(1), Ok(()));
        assert!(most[0].evicted().is_cancelled(), "the oldest of the flood");
        assert!(!most[1].evicted().is_cancelled() && !few[0].evicted().is_cancelled());
        assert_eq!(shares.taken(), 4);
        drop((most, few, newcomer));
        assert_eq!(shares.taken(), 0);
    }

    #[test]
    fn nobody_takes_from_who_holds_as_little() {
        let shares = Shares::new(2, 2);
        let _held = (fill(&shares, peer(1), 1), fill(&shares, peer(2), 1));
        assert_eq!(shares.enter(peer(3)).take(1), Err(Full));
    }

    #[test]
    fn what_is_settled_is_not_taken_away() {
        let shares = Shares::new(3, 3);
        let mut settled = fill(&shares, peer(1), 3);
        for share in &mut settled {
            share.settle().unwrap();
        }
        assert_eq!(shares.enter(peer(2)).take(1), Err(Full));
    }

    #[test]
    fn the_newest_takes_from_the_oldest_where_addresses_prove_nothing() {
        let shares = Shares::newest_first(3);
        let flood: Vec<_> = (1..4).flat_map(|last| fill(&shares, peer(last), 1)).collect();
        let mut newcomer = shares.enter(peer(1));
        assert_eq!(newcomer.take(1), Ok(()));
        let evicted: Vec<_> = flood.iter().map(|share| share.evicted().is_cancelled()).collect();
        assert_eq!(evicted, [true, false, false]);
        drop((flood, newcomer));
        assert_eq!(shares.taken(), 0);
    }
}
