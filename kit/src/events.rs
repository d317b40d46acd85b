//! Publishes Kubernetes events: one per milestone or changed condition, not one per reconcile.

mod queue;

use std::sync::Arc;

use api::names::hex;
use bounds::printable;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use sha2::{Digest, Sha256};

use crate::events::queue::Queue;
use crate::expectations;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::status::Conditional;

/// The maximum note length in bytes. The API server rejects longer notes.
const LONGEST_NOTE: usize = 1000;
/// The number of events after which the recorder is replaced. The recorder remembers each event, with about 3 KiB, to count
/// repetitions.
const REMEMBERED: usize = 200;

/// Publishes a controller's events in the background, so that reconciles don't wait for them.
///
/// Events are sent one at a time, so that a storm leaves the API server's capacity to the reconciles. The queue is short and
/// serves the namespaces in turn. If the queue is full, the oldest event in the namespace with the most events is dropped and
/// counted.
#[derive(Clone)]
pub struct Events {
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    controller: &'static str,
}

impl Events {
    /// Creates a publisher whose events name `controller`, such as `capw-wcpmachine`, as their source.
    pub fn new(runtime: &Runtime, controller: &'static str) -> Self {
        let reporter =
            Reporter { controller: controller.to_owned(), instance: Some(runtime.identity.clone()) };
        let queue = Arc::<Queue>::default();
        tokio::spawn(publish_queued(Arc::clone(&queue), runtime.client.clone(), reporter));
        Self { queue, metrics: Arc::clone(&runtime.metrics), controller }
    }

    /// Publishes a normal event, about something that works as expected. `reason` is one CamelCase word, and `note` the message.
    pub fn normal<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, note: impl Into<String>) {
        self.publish(object, EventType::Normal, reason, &note.into());
    }

    /// Publishes a warning, about something that needs attention. `reason` is one CamelCase word, and `note` the message.
    pub fn warning<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, note: impl Into<String>) {
        self.publish(object, EventType::Warning, reason, &note.into());
    }

    /// Publishes an event for each condition whose status or reason changed. `warns` selects the conditions that become warnings.
    pub fn transitions<K, C>(&self, object: &K, old: &[C], new: &[C], warns: impl Fn(&C) -> bool)
    where
        K: Resource<DynamicType = ()>,
        C: Conditional,
    {
        for condition in changed(old, new) {
            let type_ = if warns(condition) { EventType::Warning } else { EventType::Normal };
            let reason = match condition.reason() {
                "" => condition.type_(),
                reason => reason,
            };
            let note = match condition.message() {
                "" => format!("{} is {}", condition.type_(), condition.status()),
                message => message.to_owned(),
            };
            self.publish(object, type_, reason, &note);
        }
    }

    fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, type_: EventType, reason: &str, note: &str) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(shorten(note)),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.queue.push(event, object.object_ref(&())) {
            self.metrics.dropped_event(self.controller);
        }
    }
}

async fn publish_queued(queue: Arc<Queue>, client: Client, reporter: Reporter) {
    loop {
        let recorder = Recorder::new(client.clone(), reporter.clone());
        for _ in 0..REMEMBERED {
            let (event, object) = queue.pop().await;
            let reason = event.reason.clone();
            if let Err(error) = recorder.publish(&add_note_digest(event), &object).await {
                tracing::debug!(reason, %error, "event not published");
            }
        }
    }
}

/// Adds a digest of the note to the action. The recorder counts events that differ only in their notes as
/// repetitions, and an event's note is immutable, so without the digest, the first note would also appear for later causes.
fn add_note_digest(event: Event) -> Event {
    let note = event.note.as_deref().unwrap_or_default();
    let digest = Sha256::digest(note);
    // The API server limits an action to 128 characters.
    let action = format!("{:.100}-{}", event.action, hex(&digest[..4]));
    Event { action, ..event }
}

/// Returns the conditions in `new` that are missing in `old`, or that have a different status or reason in `old`.
pub fn changed<'a, C: Conditional>(old: &[C], new: &'a [C]) -> Vec<&'a C> {
    let same = |a: &C, b: &C| a.type_() == b.type_() && a.status() == b.status() && a.reason() == b.reason();
    new.iter().filter(|condition| !old.iter().any(|before| same(before, condition))).collect()
}

/// Returns the note as one printable line, within the API server's limit.
fn shorten(note: &str) -> String {
    let mut note = printable(note, LONGEST_NOTE);
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    note
}

/// Returns `Kind namespace/name`, the form in which messages name an object.
pub fn describe_object<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    let named = expectations::stale_cache::<K>(object.meta().namespace.as_deref(), name);
    format!("{} {}", named.kind, named.name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};
    use support::api_server::server;
    use support::wait::within;

    use super::*;
    use crate::status::condition;

    /// Yields until `is_so` returns true.
    async fn until(is_so: impl Fn() -> bool) {
        within("the events", async {
            while !is_so() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    #[tokio::test]
    async fn an_event_with_the_same_reason_and_another_note_is_another_event() {
        let (client, requests) = server(|request| (201, request.body.clone()));
        let events = Events::new(&Runtime::detached(client), "tests");
        let object: ConfigMap =
            serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "a", "uid": "u"}}))
                .unwrap();
        for (sent, note) in
            ["class c does not exist", "the guest failed", "the guest failed"].iter().enumerate()
        {
            events.warning(&object, "Blocked", *note);
            until(|| requests.lock().len() > sent).await;
        }
        let requests = requests.lock();
        let seen: Vec<(&str, &Value, &Value)> = requests
            .iter()
            .map(|request| (request.method.as_str(), &request.body["note"], &request.body["series"]["count"]))
            .collect();
        let (class, guest) = (json!("class c does not exist"), json!("the guest failed"));
        let (none, two) = (Value::Null, json!(2));
        assert_eq!(seen, [("POST", &class, &none), ("POST", &guest, &none), ("PATCH", &guest, &two)]);
        assert_eq!(requests[0].body["reason"], "Blocked");
    }

    #[test]
    fn only_a_new_status_or_reason_is_a_change() {
        let old =
            [condition("Ready", false, "Waiting", "a", None), condition("Network", true, "Ready", "", None)];
        let new =
            [condition("Ready", false, "Waiting", "b", None), condition("Network", false, "Lost", "", None)];
        let types: Vec<_> = changed(&old, &new).iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["Network"]);
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = shorten(&"ü".repeat(1000));
        assert!(note.len() <= LONGEST_NOTE + '…'.len_utf8());
        assert!(note.ends_with("ü…"));
        assert_eq!(shorten("a\u{1b}[2Jb\nc"), "a [2Jb c");
    }
}
