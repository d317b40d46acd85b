//! Subscriptions to inventory changes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cache::Delta;
use super::types::InventoryChange;
use super::vm::Vm;
use crate::MoRef;

type BeforeAfter = (Option<Arc<Vm>>, Option<Arc<Vm>>);

/// A subscription to inventory changes. Unread changes are merged per VM.
pub struct Changes {
    unread: Arc<Unread>,
}

#[derive(Default)]
struct Unread {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    vms: HashMap<MoRef, BeforeAfter>,
    complete: Option<bool>,
    closed: bool,
}

impl Changes {
    /// Waits for changes and takes all of them: one per changed VM, and the latest [`InventoryChange::Complete`] or
    /// [`InventoryChange::Incomplete`]. Returns `None` after the inventory has stopped.
    pub async fn next(&mut self) -> Option<Vec<InventoryChange>> {
        loop {
            {
                let mut state = self.unread.state.lock();
                let changes = state.take();
                if !changes.is_empty() {
                    return Some(changes);
                }
                if state.closed {
                    return None;
                }
            }
            self.unread.wake.notified().await;
        }
    }
}

impl State {
    fn take(&mut self) -> Vec<InventoryChange> {
        let vms = std::mem::take(&mut self.vms).into_iter();
        let mut changes: Vec<InventoryChange> =
            vms.map(|(moref, (was, now))| InventoryChange::Vm { moref, was, now }).collect();
        match self.complete.take() {
            Some(true) => changes.push(InventoryChange::Complete),
            Some(false) => changes.push(InventoryChange::Incomplete),
            None => {}
        }
        changes
    }

    /// Merges a change: keeps the VM's state before the first unread change and its state after the last one. If both
    /// states are equal, the VM has no unread change.
    fn add(&mut self, delta: &Delta) {
        let entry = self.vms.entry(delta.moref.clone()).or_insert_with(|| (delta.was.clone(), None));
        entry.1.clone_from(&delta.now);
        if entry.0 == entry.1 {
            self.vms.remove(&delta.moref);
        }
    }
}

/// The list of subscriptions, including dropped ones until the next notification.
#[derive(Default)]
pub(super) struct Subscribers(Mutex<Vec<Weak<Unread>>>);

impl Subscribers {
    pub fn subscribe(&self) -> Changes {
        let unread = Arc::new(Unread::default());
        self.0.lock().push(Arc::downgrade(&unread));
        Changes { unread }
    }

    pub fn notify(&self, deltas: &[Delta], complete: Option<bool>) {
        if deltas.is_empty() && complete.is_none() {
            return;
        }
        self.each(|state| {
            for delta in deltas {
                state.add(delta);
            }
            if complete.is_some() {
                state.complete = complete;
            }
        });
    }

    pub fn close(&self) {
        self.each(|state| state.closed = true);
    }

    fn each(&self, mut change: impl FnMut(&mut State)) {
        self.0.lock().retain(|subscriber| {
            let Some(unread) = subscriber.upgrade() else { return false };
            change(&mut unread.state.lock());
            unread.wake.notify_one();
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn vm(name: &str) -> Arc<Vm> {
        let mut vm = Vm::new(MoRef::vm("vm-1"));
        vm.name = name.into();
        Arc::new(vm)
    }

    #[test]
    fn changes_of_one_vm_are_one() {
        let subscribers = Subscribers::default();
        let mut changes = subscribers.subscribe();
        let delta = |was: &str, now: &str| {
            let state = |name: &str| (!name.is_empty()).then(|| vm(name));
            Delta { moref: MoRef::vm("vm-1"), was: state(was), now: state(now) }
        };
        assert!(changes.next().now_or_never().is_none());
        subscribers.notify(&[delta("a", "b")], None);
        subscribers.notify(&[delta("b", "c")], Some(true));
        let expected = vec![
            InventoryChange::Vm { moref: MoRef::vm("vm-1"), was: Some(vm("a")), now: Some(vm("c")) },
            InventoryChange::Complete,
        ];
        assert_eq!(changes.next().now_or_never(), Some(Some(expected)));

        subscribers.notify(&[delta("", "c"), delta("c", "")], None);
        assert!(changes.next().now_or_never().is_none(), "it came and went unseen");
        subscribers.close();
        assert_eq!(changes.next().now_or_never(), Some(None));
    }
}
