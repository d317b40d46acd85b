//! A concurrency limit for slow work, with a lower limit for each share, such as a namespace.
//!
//! A call that takes vCenter an hour must block neither quick calls nor all other slow calls. Such work
//! therefore has a separate lane, in which one share can never take all permits.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::places::Places;

/// A concurrency limit with a fair queue of waiters. Clones share the limit.
#[derive(Clone)]
pub struct Lane(Arc<Mutex<Places<oneshot::Sender<Turn>>>>);

/// A permit to work in a lane. It is released on drop.
pub struct Turn {
    lane: Lane,
    share: Arc<str>,
}

impl Lane {
    /// Creates a lane with `width` permits. Each share can hold at most `per_share` permits.
    pub fn new(width: usize, per_share: usize) -> Self {
        Self(Arc::new(Mutex::new(Places::new(width, per_share))))
    }

    /// Creates a lane with `width` permits. A share can take another permit only while it holds fewer permits than are free
    /// ([`Places::halved`]).
    pub fn halved(width: usize) -> Self {
        Self(Arc::new(Mutex::new(Places::halved(width))))
    }

    /// Waits for a permit for `share`. The share that holds the fewest permits is served first. If shares hold equally many, the
    /// share whose first waiter has waited longest is served first.
    pub async fn enter(&self, share: &str) -> Turn {
        let turn = {
            let mut places = self.0.lock();
            if places.take(share) {
                return Turn { lane: self.clone(), share: share.into() };
            }
            // Remove canceled waiters each time the queue may have doubled.
            if places.waiting(share).is_power_of_two() {
                places.retain(share, |waiting| !waiting.is_closed());
            }
            let (sender, turn) = oneshot::channel();
            places.wait(share, sender);
            turn
        };
        match turn.await {
            Ok(turn) => turn,
            // `self` keeps the lane alive, so its queue never drops a sender.
            Err(_) => std::future::pending().await,
        }
    }

    fn leave(&self, share: &str) {
        self.0.lock().leave(share);
        loop {
            let next = {
                let mut places = self.0.lock();
                let Some((share, waiting)) = places.take_next() else { return };
                if waiting.is_closed() {
                    places.leave(&share);
                    continue;
                }
                (Turn { lane: self.clone(), share }, waiting)
            };
            let (turn, waiting) = next;
            // If the caller is canceled at this moment, the dropped turn calls `leave` again.
            drop(waiting.send(turn));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Self { lane, share } = self;
        lane.clone().leave(share);
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
