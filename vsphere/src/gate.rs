//! Limits concurrent calls, in FIFO order, to the number that vCenter can handle.
//!
//! The width (the number of slots) grows slowly while calls succeed and other calls wait, and is halved when vCenter is
//! overloaded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::CallMetrics;

const WIDEST: f64 = 64.0;
/// The minimum interval between two reductions of the width. Calls that fail together indicate a single overload.
const ONE_OVERLOAD: Duration = Duration::from_secs(1);

pub(crate) struct CallGate {
    state: Mutex<State>,
    metrics: CallMetrics,
}

struct State {
    width: f64,
    in_flight: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
    narrowed: Option<Instant>,
}

/// A slot for one call, released on drop.
pub(crate) struct Permit {
    gate: Arc<CallGate>,
}

impl CallGate {
    pub fn new(width: usize, metrics: CallMetrics) -> Arc<Self> {
        let width = u32::try_from(width.max(1)).map_or(WIDEST, f64::from).min(WIDEST);
        let waiting = VecDeque::new();
        let gate =
            Self { state: Mutex::new(State { width, in_flight: 0, waiting, narrowed: None }), metrics };
        gate.show(&gate.state.lock());
        Arc::new(gate)
    }

    pub async fn enter(self: &Arc<Self>) -> Permit {
        let turn = {
            let mut state = self.state.lock();
            if state.waiting.is_empty() && state.room() {
                state.in_flight += 1;
                self.show(&state);
                return Permit { gate: self.clone() };
            }
            let (sender, turn) = oneshot::channel();
            state.waiting.push_back(sender);
            turn
        };
        match turn.await {
            Ok(permit) => permit,
            // `self` keeps the gate alive, so its queue never drops a sender.
            Err(_) => std::future::pending().await,
        }
    }

    fn leave(self: &Arc<Self>) {
        self.state.lock().in_flight -= 1;
        loop {
            let next = {
                let mut state = self.state.lock();
                while state.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                    state.waiting.pop_front();
                }
                let next = if state.room() { state.waiting.pop_front() } else { None };
                if next.is_some() {
                    state.in_flight += 1;
                }
                self.show(&state);
                next
            };
            let Some(next) = next else { return };
            // If the caller has just given up, the permit is dropped, which calls `leave` again.
            drop(next.send(Permit { gate: self.clone() }));
        }
    }

    #[allow(clippy::cast_possible_truncation)] // the width is at most 64
    fn show(&self, state: &State) {
        self.metrics.width.set(state.width as i64);
        self.metrics.in_flight.set(i64::try_from(state.in_flight).unwrap_or(i64::MAX));
    }
}

impl State {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the width is between 1 and 64
    fn room(&self) -> bool {
        self.in_flight < self.width as usize
    }
}

impl Permit {
    /// Records success. Widens the gate if other calls are waiting.
    pub fn succeeded(self) {
        let mut state = self.gate.state.lock();
        if !state.waiting.is_empty() {
            state.width = (state.width + 1.0 / state.width).min(WIDEST);
        }
    }

    /// Records that vCenter was overloaded. Halves the width at most once per `ONE_OVERLOAD`.
    pub fn overloaded(self, now: Instant) {
        let mut state = self.gate.state.lock();
        if state.narrowed.is_none_or(|last| now.duration_since(last) >= ONE_OVERLOAD) {
            state.width = (state.width / 2.0).max(1.0);
            state.narrowed = Some(now);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn first_come_first_served() {
        let gate = CallGate::new(1, CallMetrics::default());
        let first = gate.enter().now_or_never().unwrap();
        let mut second = Box::pin(gate.enter());
        let mut third = Box::pin(gate.enter());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        let permit = second.now_or_never().unwrap();
        drop(permit);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn who_gives_up_does_not_hold_the_queue() {
        let gate = CallGate::new(1, CallMetrics::default());
        let first = gate.enter().now_or_never().unwrap();
        let mut second = Box::pin(gate.enter());
        assert!(second.as_mut().now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(gate.enter().now_or_never().is_some());
    }

    #[test]
    fn overload_halves_the_width_once() {
        let gate = CallGate::new(8, CallMetrics::default());
        let now = Instant::now();
        let permits: Vec<_> = (0..8).map(|_| gate.enter().now_or_never().unwrap()).collect();
        for permit in permits {
            permit.overloaded(now);
        }
        let held: Vec<_> = (0..4).map(|_| gate.enter().now_or_never()).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(gate.enter().now_or_never().is_none());
    }
}
