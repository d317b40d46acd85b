//! A capacity that addresses share: connections, or bytes of bodies.
//!
//! An address takes its share and no more. When everything is taken, whoever holds less takes from who holds the most, so a
//! flood from some addresses does not keep out the others. Addresses prove nothing where a stranger has as many as it likes,
//! such as those of loopback: there the newest takes from the oldest ([`Shares::newest_first`]).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The capacity. Clones are the same.
#[derive(Clone)]
pub struct Shares(Arc<Mutex<State>>);

struct State {
    capacity: usize,
    /// None if the newest takes from the oldest, whatever their addresses are.
    per_address: Option<usize>,
    taken: usize,
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    address: IpAddr,
    amount: usize,
    evicted: CancellationToken,
    /// Nobody takes it away.
    settled: bool,
}

/// What one connection or request holds; gives it back when dropped.
pub struct Share {
    shares: Shares,
    id: u64,
    evicted: CancellationToken,
}

/// Nothing is left for this address.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Shares {
    /// A capacity, of which one address gets `per_address` at most.
    pub fn new(capacity: usize, per_address: usize) -> Self {
        Self::with(capacity, Some(per_address))
    }

    /// A capacity of which a newcomer always gets some: what the oldest hold is taken away for it.
    pub fn newest_first(capacity: usize) -> Self {
        Self::with(capacity, None)
    }

    fn with(capacity: usize, per_address: Option<usize>) -> Self {
        let holders = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { capacity, per_address, taken: 0, next: 0, holders })))
    }

    /// A share that holds nothing yet.
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
    /// Takes `amount` more.
    ///
    /// # Errors
    /// As much is not left for its address.
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

    /// From here on nobody takes it away.
    ///
    /// # Errors
    /// It was taken away.
    pub fn settle(&mut self) -> Result<(), Full> {
        self.shares.0.lock().holders.get_mut(&self.id).map(|holder| holder.settled = true).ok_or(Full)
    }

    /// Cancelled when it is taken away.
    pub fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }
}

impl State {
    fn held_by(&self, address: IpAddr) -> usize {
        let its = self.holders.values().filter(|holder| holder.address == address);
        its.map(|holder| holder.amount).sum()
    }

    /// The holder whose address holds the most, if that is another one and it holds more than `wanted`.
    fn largest(&self, address: IpAddr, wanted: usize) -> Option<u64> {
        let others = self.holders.iter().filter(|(_, holder)| holder.can_lose() && holder.address != address);
        let largest = others.max_by_key(|(id, holder)| {
            (self.held_by(holder.address), holder.amount, std::cmp::Reverse(**id))
        });
        largest.filter(|(_, holder)| self.held_by(holder.address) > wanted).map(|(id, _)| *id)
    }

    /// The holder that came first, but for `own`.
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
