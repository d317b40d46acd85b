//! A concurrency limit with a lower limit for each share, such as a namespace, so that one share can never take all permits.
//!
//! A permit stands for one piece of work, or for a byte of memory ([`Lane::enter_with`]).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::places::{Granted, PermitQueue, Ticket};

/// A concurrency limit with a fair queue of waiters. Clones share the limit.
#[derive(Clone)]
pub struct Lane(Arc<Mutex<PermitQueue<oneshot::Sender<Turn>>>>);

/// Permits to work in a lane. They are released on drop.
pub struct Turn {
    lane: Lane,
    share: Arc<str>,
    amount: usize,
}

impl Lane {
    /// Creates a lane with `width` permits. Each share can hold at most `per_share` permits.
    pub fn new(width: usize, per_share: usize) -> Self {
        Self(Arc::new(Mutex::new(PermitQueue::new(width, per_share))))
    }

    /// Creates a lane with `per_share` permits for each share, and any number in total.
    pub fn per_share(per_share: usize) -> Self {
        Self::new(usize::MAX, per_share)
    }

    /// Creates a lane with `width` permits, in which a share gets at most as many permits as it leaves to other shares
    /// ([`PermitQueue::halved`]).
    pub fn halved(width: usize) -> Self {
        Self(Arc::new(Mutex::new(PermitQueue::halved(width))))
    }

    /// Waits for a permit for `share`. The share that holds the fewest permits is served first. If shares hold equally many, the
    /// share whose first waiter has waited longest is served first.
    pub async fn enter(&self, share: &str) -> Turn {
        self.enter_with(share, 1).await
    }

    /// Same as [`Self::enter`], but waits for `amount` permits. Never resolves if a share can't have that many.
    pub async fn enter_with(&self, share: &str, amount: usize) -> Turn {
        let (waiting, turn) = {
            let mut places = self.0.lock();
            if places.take(share, amount) {
                return Turn { lane: self.clone(), share: share.into(), amount };
            }
            let (sender, turn) = oneshot::channel();
            (Waiting { lane: self, share, ticket: places.wait(share, amount, sender) }, turn)
        };
        let turn = turn.await;
        drop(waiting);
        match turn {
            Ok(turn) => turn,
            // `self` keeps the lane alive, so its queue never drops the sender of a waiter that still waits.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns a permit for `share`, or `None` if the share would have to wait for it.
    pub fn try_enter(&self, share: &str) -> Option<Turn> {
        self.0.lock().take(share, 1).then(|| Turn { lane: self.clone(), share: share.into(), amount: 1 })
    }

    fn leave(&self, share: &str, amount: usize) {
        self.0.lock().leave(share, amount);
        self.serve();
    }

    /// Gives the free permits to the next waiters.
    fn serve(&self) {
        loop {
            let Some(Granted { share, amount, waiter }) = self.0.lock().take_next() else { return };
            let turn = Turn { lane: self.clone(), share, amount };
            // If the caller is canceled at this moment, the dropped turn calls `leave`.
            drop(waiter.send(turn));
        }
    }
}

impl Turn {
    /// Adds the permits of another turn of the same share and lane.
    pub fn merge(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Releases all but `amount` permits.
    pub fn keep(&mut self, amount: usize) {
        let more = self.amount.saturating_sub(amount);
        if more > 0 {
            self.amount = amount;
            self.lane.leave(&self.share, more);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keep(0);
    }
}

/// A caller in the queue, which leaves the queue on drop.
struct Waiting<'a> {
    lane: &'a Lane,
    share: &'a str,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self { lane, share, ticket } = self;
        let removed = lane.0.lock().give_up(share, *ticket);
        if removed.is_some() {
            lane.serve();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_share_never_takes_all_places() {
        let lane = Lane::new(3, 2);
        let held: Vec<_> = (0..2).map(|_| lane.enter("b").now_or_never().unwrap()).collect();
        let mut third = Box::pin(lane.enter("b"));
        assert!(third.as_mut().now_or_never().is_none());
        let other = lane.enter("a").now_or_never();
        assert!(other.is_some(), "another share has its place");
        assert!(lane.enter("c").now_or_never().is_none(), "no more places in all");
        drop(held);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn the_share_with_the_fewest_comes_first() {
        let lane = Lane::new(2, 2);
        let (first, second) = (lane.enter("b").now_or_never().unwrap(), lane.enter("b").now_or_never());
        let mut greedy = Box::pin(lane.enter("b"));
        let mut modest = Box::pin(lane.enter("a"));
        assert!(greedy.as_mut().now_or_never().is_none() && modest.as_mut().now_or_never().is_none());
        drop(first);
        assert!(greedy.as_mut().now_or_never().is_none());
        assert!(modest.now_or_never().is_some());
        drop(second);
        assert!(greedy.now_or_never().is_some());
    }

    #[test]
    fn who_gives_up_holds_up_no_other_waiter() {
        let lane = Lane::new(4, 4);
        let held = lane.enter_with("a", 3).now_or_never();
        let mut large = Box::pin(lane.enter_with("b", 2));
        let mut small = Box::pin(lane.enter("c"));
        assert!(large.as_mut().now_or_never().is_none() && small.as_mut().now_or_never().is_none());
        assert!(lane.try_enter("d").is_none(), "others came first");
        drop(large);
        assert!(small.now_or_never().is_some());
        drop(held);
        assert!(lane.0.lock().is_empty());
    }

    #[test]
    fn a_turn_is_released_in_parts() {
        let lane = Lane::per_share(4);
        let mut turn = lane.enter_with("a", 1).now_or_never().unwrap();
        turn.merge(lane.enter_with("a", 3).now_or_never().unwrap());
        assert!(lane.try_enter("a").is_none() && lane.try_enter("b").is_some());
        turn.keep(3);
        assert!(lane.enter_with("a", 2).now_or_never().is_none());
        assert!(lane.try_enter("a").is_some());
        drop(turn);
        assert!(lane.0.lock().is_empty());
    }

    #[test]
    fn who_gives_up_holds_no_place() {
        let lane = Lane::new(1, 1);
        let first = lane.enter("a").now_or_never().unwrap();
        let mut second = Box::pin(lane.enter("b"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        // The second caller was given a permit but never used it.
        drop(second);
        assert!(lane.enter("c").now_or_never().is_some());
        assert!(lane.0.lock().is_empty());
    }
}
