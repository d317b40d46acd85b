//! Shares a controller's concurrent reconciles among namespaces.
//!
//! A namespace whose reconciles all hang must not block other namespaces. So a namespace gets another
//! slot only while it holds fewer slots than are free. An object without a slot doesn't have a task
//! or a future. Only its reference is kept, and it is enqueued again when a slot is reserved for it.

use std::collections::HashSet;
use std::sync::Arc;

use bounds::{Granted, PermitQueue};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// A controller's slots for concurrent reconciles. Clones share them.
pub(crate) struct Slots<K: Resource<DynamicType = ()>>(Arc<Shared<K>>);

impl<K: Resource<DynamicType = ()>> Clone for Slots<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<K: Resource<DynamicType = ()>> {
    state: Mutex<State<K>>,
    wake: mpsc::UnboundedSender<ObjectRef<K>>,
}

struct State<K: Resource<DynamicType = ()>> {
    places: PermitQueue<ObjectRef<K>>,
    /// The objects that wait in `places`.
    waiting: HashSet<ObjectRef<K>>,
    /// The objects for which a slot is reserved. They are enqueued.
    granted: HashSet<ObjectRef<K>>,
}

/// A slot for one reconcile. It is returned on drop.
pub(crate) struct ReconcileSlot<K: Resource<DynamicType = ()>> {
    slots: Slots<K>,
    namespace: Option<String>,
}

impl<K: Resource<DynamicType = ()>> Slots<K> {
    /// Creates `width` slots. `wake` enqueues an object.
    pub fn new(width: usize, wake: mpsc::UnboundedSender<ObjectRef<K>>) -> Self {
        let places = PermitQueue::halved(width);
        let state = State { places, waiting: HashSet::new(), granted: HashSet::new() };
        Self(Arc::new(Shared { state: Mutex::new(state), wake }))
    }

    /// Returns a slot for the object. Without a free slot, returns `None`, and the object is enqueued
    /// later, when a slot is reserved for it.
    pub fn enter(&self, object: &ObjectRef<K>) -> Option<ReconcileSlot<K>> {
        let mut state = self.0.state.lock();
        let State { places, waiting, granted } = &mut *state;
        let share = share(object);
        if !granted.remove(object) && (waiting.contains(object) || !places.take(share, 1)) {
            if waiting.insert(object.clone()) {
                places.wait(share, 1, object.clone());
            }
            return None;
        }
        Some(ReconcileSlot { slots: self.clone(), namespace: object.namespace.clone() })
    }

    /// Releases the slot that is reserved for an object, because the object is gone.
    pub fn give_up(&self, object: &ObjectRef<K>) {
        if self.0.state.lock().granted.remove(object) {
            self.leave(share(object));
        }
    }

    fn leave(&self, share: &str) {
        let mut state = self.0.state.lock();
        let State { places, waiting, granted } = &mut *state;
        places.leave(share, 1);
        while let Some(Granted { waiter: next, .. }) = places.take_next() {
            waiting.remove(&next);
            granted.insert(next.clone());
            // Fails only if the receiver is gone, because the program shuts down.
            let _ = self.0.wake.send(next);
        }
    }
}

/// Returns the key by which an object's slots are counted: its namespace, or an empty string for objects without a namespace.
fn share<K: Resource<DynamicType = ()>>(object: &ObjectRef<K>) -> &str {
    object.namespace.as_deref().unwrap_or_default()
}

impl<K: Resource<DynamicType = ()>> Drop for ReconcileSlot<K> {
    fn drop(&mut self) {
        self.slots.leave(self.namespace.as_deref().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(namespace: &str, name: &str) -> ObjectRef<Pod> {
        ObjectRef::new(name).within(namespace)
    }

    #[test]
    fn an_object_without_a_slot_is_enqueued_once_there_is_one() {
        let (wake, mut woken) = mpsc::unbounded_channel();
        let slots = Slots::new(2, wake);
        let (first, second) = (pod("a", "1"), pod("a", "2"));
        let held = slots.enter(&first);
        assert!(held.is_some());
        assert!(
            slots.enter(&second).is_none() && slots.enter(&second).is_none(),
            "half of the slots are a's"
        );
        assert!(slots.enter(&pod("b", "1")).is_some(), "the other half is not");
        drop(held);
        assert_eq!(woken.try_recv().unwrap(), second);
        assert!(woken.try_recv().is_err(), "once");
        assert!(slots.enter(&first).is_none(), "the slot is kept");
        assert!(slots.enter(&second).is_some());
    }

    #[test]
    fn a_slot_of_an_object_that_is_gone_goes_to_the_next() {
        let (wake, mut woken) = mpsc::unbounded_channel();
        let slots = Slots::new(1, wake);
        let held = slots.enter(&pod("a", "1"));
        let (gone, next) = (pod("a", "2"), pod("b", "1"));
        assert!(slots.enter(&gone).is_none() && slots.enter(&next).is_none());
        slots.give_up(&gone);
        drop(held);
        assert_eq!(woken.try_recv().unwrap(), gone);
        slots.give_up(&gone);
        assert_eq!(woken.try_recv().unwrap(), next);
        drop(slots.enter(&next));
        let state = slots.0.state.lock();
        assert!(state.places.is_empty() && state.waiting.is_empty() && state.granted.is_empty());
    }
}
