//! Places for what takes long: few in all, and fewer for each of those that share them.
//!
//! A call that vCenter answers only after an hour must neither hold a place of calls that take a moment, nor
//! every place of its kind. So such work has a lane of its own, in which one share can never take all places.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A lane. Clones are the same lane.
#[derive(Clone)]
pub struct Lane(Arc<Inner>);

struct Inner {
    width: usize,
    per_share: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_use: HashMap<String, usize>,
    waiting: VecDeque<(String, oneshot::Sender<Turn>)>,
}

/// A place in a lane; gives it back when dropped.
pub struct Turn {
    lane: Lane,
    share: String,
}

impl Lane {
    /// A lane of `width` places, of which one share gets `per_share` at most.
    pub fn new(width: usize, per_share: usize) -> Self {
        Self(Arc::new(Inner { width, per_share, state: Mutex::default() }))
    }

    /// Waits for a place on behalf of `share`: the share with the fewest comes first, then whoever came first.
    pub async fn enter(&self, share: &str) -> Turn {
        let turn = {
            let mut state = self.0.state.lock();
            if self.0.has_place(&state, share) {
                return self.take(&mut state, share);
            }
            let (sender, turn) = oneshot::channel();
            state.waiting.push_back((share.to_owned(), sender));
            turn
        };
        match turn.await {
            Ok(turn) => turn,
            // The lane is alive (self), so its queue never drops a sender.
            Err(_) => std::future::pending().await,
        }
    }

    fn take(&self, state: &mut State, share: &str) -> Turn {
        *state.in_use.entry(share.to_owned()).or_default() += 1;
        Turn { lane: self.clone(), share: share.to_owned() }
    }

    fn leave(&self, share: &str) {
        {
            let mut state = self.0.state.lock();
            if let Some(used) = state.in_use.get_mut(share) {
                *used -= 1;
                if *used == 0 {
                    state.in_use.remove(share);
                }
            }
        }
        loop {
            let next = {
                let mut state = self.0.state.lock();
                state.waiting.retain(|(_, waiting)| !waiting.is_closed());
                let Some(at) = self.0.next(&state) else { return };
                let Some((share, waiting)) = state.waiting.remove(at) else { return };
                (self.take(&mut state, &share), waiting)
            };
            let (turn, waiting) = next;
            // A caller that gives up at this very moment drops its turn, which comes back here.
            drop(waiting.send(turn));
        }
    }
}

impl Inner {
    fn has_place(&self, state: &State, share: &str) -> bool {
        state.in_use.values().sum::<usize>() < self.width && state.used(share) < self.per_share
    }

    /// Who of those that wait is next, if there is a place.
    fn next(&self, state: &State) -> Option<usize> {
        let waiting = state.waiting.iter().enumerate();
        let may = waiting.filter(|(_, (share, _))| self.has_place(state, share));
        may.min_by_key(|(at, (share, _))| (state.used(share), *at)).map(|(at, _)| at)
    }
}

impl State {
    fn used(&self, share: &str) -> usize {
        self.in_use.get(share).copied().unwrap_or_default()
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
        // It was given its place and never took it.
        drop(second);
        assert!(lane.enter("c").now_or_never().is_some());
        assert!(lane.0.state.lock().in_use.is_empty());
    }
}
