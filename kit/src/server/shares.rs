//! A capacity that addresses share: connections, or bytes of bodies.
//!
//! An address takes its share and no more. When everything is taken, whoever holds less takes from who holds the most, so a
//! flood from some addresses does not keep out the others. A verified peer takes from all that are not.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::server::peer::Peer;

/// The capacity. Clones are the same.
#[derive(Clone)]
pub(crate) struct Shares(Arc<Mutex<State>>);

struct State {
    capacity: usize,
    per_address: usize,
    taken: usize,
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    peer: Peer,
    amount: usize,
    evicted: CancellationToken,
    /// Nobody takes it away.
    settled: bool,
}

/// What one connection or request holds; gives it back when dropped.
pub(crate) struct Share {
    shares: Shares,
    id: u64,
    evicted: CancellationToken,
}

/// Nothing is left for this address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Shares {
    /// A capacity, of which one address gets `per_address` at most.
    pub fn new(capacity: usize, per_address: usize) -> Self {
        let holders = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { capacity, per_address, taken: 0, next: 0, holders })))
    }

    /// A share that holds nothing yet.
    pub fn enter(&self, peer: Peer) -> Share {
        let mut state = self.0.lock();
        let id = state.next;
        state.next += 1;
        let evicted = CancellationToken::new();
        state.holders.insert(id, Holder { peer, amount: 0, evicted: evicted.clone(), settled: false });
        Share { shares: self.clone(), id, evicted }
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        self.0.lock().taken
    }
}

impl Share {
    /// Takes `amount` more.
    pub fn take(&mut self, amount: usize) -> Result<(), Full> {
        let mut state = self.shares.0.lock();
        let peer = state.holders.get(&self.id).ok_or(Full)?.peer;
        let wanted = state.held_by(peer) + amount;
        if wanted > state.per_address && !peer.verified {
            return Err(Full);
        }
        while state.taken + amount > state.capacity {
            state.evict_for(peer, wanted)?;
        }
        state.taken += amount;
        if let Some(holder) = state.holders.get_mut(&self.id) {
            holder.amount += amount;
        }
        Ok(())
    }

    /// Whoever holds it turned out to be `peer`.
    pub fn set_peer(&mut self, peer: Peer) {
        if let Some(holder) = self.shares.0.lock().holders.get_mut(&self.id) {
            holder.peer = peer;
        }
    }

    /// From here on nobody takes it away; an error if somebody has.
    pub fn settle(&mut self) -> Result<(), Full> {
        self.shares.0.lock().holders.get_mut(&self.id).map(|holder| holder.settled = true).ok_or(Full)
    }

    /// Cancelled when it is taken away.
    pub fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }
}

impl State {
    fn held_by(&self, peer: Peer) -> usize {
        let its = self.holders.values().filter(|holder| holder.peer.address == peer.address);
        its.map(|holder| holder.amount).sum()
    }

    /// Takes from the address that holds the most what it holds at once, if that is more than `wanted`.
    fn evict_for(&mut self, peer: Peer, wanted: usize) -> Result<(), Full> {
        let others = self.holders.iter().filter(|(_, holder)| {
            let same = holder.peer.address == peer.address && !peer.verified;
            holder.amount > 0 && !holder.settled && !holder.peer.verified && !same
        });
        let largest = others
            .max_by_key(|(id, holder)| (self.held_by(holder.peer), holder.amount, std::cmp::Reverse(**id)));
        let (id, holder) = largest.ok_or(Full)?;
        if self.held_by(holder.peer) <= wanted && !peer.verified {
            return Err(Full);
        }
        let id = *id;
        let evicted = self.holders.remove(&id).ok_or(Full)?;
        self.taken -= evicted.amount;
        evicted.evicted.cancel();
        Ok(())
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

    fn peer(last: u8) -> Peer {
        Peer { address: [10, 0, 0, last].into(), verified: false }
    }

    fn fill(shares: &Shares, peer: Peer, count: usize) -> Vec<Share> {
        let taken = (0..count).map(|_| {
            let mut share = shares.enter(peer);
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
    fn what_is_settled_or_verified_is_not_taken_away() {
        let shares = Shares::new(3, 3);
        let mut settled = fill(&shares, peer(1), 3);
        for share in &mut settled {
            share.settle().unwrap();
        }
        assert_eq!(shares.enter(peer(2)).take(1), Err(Full));
        drop(settled);
        let verified = fill(&shares, Peer { verified: true, ..peer(1) }, 3);
        assert_eq!(shares.enter(peer(2)).take(1), Err(Full));
        drop(verified);
        let flood = fill(&shares, peer(1), 3);
        assert_eq!(shares.enter(Peer { verified: true, ..peer(2) }).take(2), Ok(()));
        assert_eq!(flood.iter().filter(|share| share.evicted().is_cancelled()).count(), 2);
    }
}
