//! Queues events until they are published, with a size limit and fairness between namespaces.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The maximum number of queued events. Each takes about 2 KiB.
const MOST: usize = 1000;

type Queued = (Event, ObjectReference);

/// The events that aren't published yet.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    /// The queue per namespace. An empty queue is removed.
    by_namespace: BTreeMap<String, VecDeque<Queued>>,
    count: usize,
    /// The namespace that was served last.
    last: String,
}

impl Queue {
    /// Adds an event. Returns true if an event was dropped to make room.
    ///
    /// If the event repeats a queued event, only the note of the queued event is replaced.
    pub fn push(&self, event: Event, object: ObjectReference) -> bool {
        let dropped = self.state.lock().push(event, object);
        self.added.notify_one();
        dropped
    }

    /// Waits for the next event: the oldest one from the next namespace in turn.
    pub async fn pop(&self) -> Queued {
        loop {
            // Registered before the queue is checked, so that an event that is added in between isn't missed.
            let added = self.added.notified();
            if let Some(queued) = self.state.lock().pop() {
                return queued;
            }
            added.await;
        }
    }
}

impl State {
    fn push(&mut self, event: Event, object: ObjectReference) -> bool {
        let namespace = object.namespace.clone().unwrap_or_default();
        let waiting = self.by_namespace.entry(namespace).or_default();
        if let Some((there, _)) =
            waiting.iter_mut().find(|(there, about)| repeats(there, about, &event, &object))
        {
            there.note = event.note;
            return false;
        }
        waiting.push_back((event, object));
        self.count += 1;
        if self.count <= MOST {
            return false;
        }
        let largest = self.by_namespace.iter().max_by_key(|(_, waiting)| waiting.len());
        if let Some(namespace) = largest.map(|(namespace, _)| namespace.clone()) {
            self.take_from(&namespace);
        }
        true
    }

    fn pop(&mut self) -> Option<Queued> {
        let next = self.by_namespace.keys().find(|namespace| **namespace > self.last);
        let namespace = next.or_else(|| self.by_namespace.keys().next())?.clone();
        self.last.clone_from(&namespace);
        self.take_from(&namespace)
    }

    /// Removes the oldest event from a namespace.
    fn take_from(&mut self, namespace: &str) -> Option<Queued> {
        let waiting = self.by_namespace.get_mut(namespace)?;
        let oldest = waiting.pop_front();
        if waiting.is_empty() {
            self.by_namespace.remove(namespace);
        }
        self.count -= usize::from(oldest.is_some());
        oldest
    }
}

/// Returns true if both events have the same reason, type and object.
fn repeats(there: &Event, about: &ObjectReference, event: &Event, object: &ObjectReference) -> bool {
    let warns = |event: &Event| matches!(event.type_, EventType::Warning);
    there.reason == event.reason && warns(there) == warns(event) && about == object
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn event(reason: &str, note: &str) -> Event {
        let (reason, action) = (reason.to_owned(), reason.to_owned());
        Event { type_: EventType::Normal, reason, note: Some(note.to_owned()), action, secondary: None }
    }

    fn object(namespace: &str, name: usize) -> ObjectReference {
        let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_string()));
        ObjectReference { namespace, name, ..ObjectReference::default() }
    }

    #[test]
    fn a_flood_drops_its_own_oldest_events_and_no_others() {
        let queue = Queue::default();
        assert!(!queue.push(event("Ready", "b"), object("b", 0)));
        let dropped = (0..MOST + 10).filter(|at| queue.push(event("Ready", "a"), object("a", *at))).count();
        assert_eq!((dropped, queue.state.lock().count), (11, MOST));
        let names: Vec<_> = (0..3).map(|_| queue.pop().now_or_never().unwrap().1.name.unwrap()).collect();
        assert_eq!(names, ["11", "0", "12"], "namespaces take turns");
        let rest = std::iter::from_fn(|| queue.pop().now_or_never()).count();
        assert_eq!((rest, queue.state.lock().by_namespace.len()), (MOST - 3, 0));
    }

    #[test]
    fn a_repeated_event_replaces_the_one_that_waits() {
        let queue = Queue::default();
        queue.push(event("Ready", "old"), object("a", 1));
        queue.push(event("Lost", "x"), object("a", 1));
        assert!(!queue.push(event("Ready", "new"), object("a", 1)));
        assert_eq!(queue.pop().now_or_never().unwrap().0.note.as_deref(), Some("new"));
        assert_eq!(queue.pop().now_or_never().unwrap().0.reason, "Lost");
        assert!(queue.pop().now_or_never().is_none());
    }
}
