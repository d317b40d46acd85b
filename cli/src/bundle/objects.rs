//! Writes one file per object, and one event table per namespace.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;

use super::allowlist::KindRule;
use super::parts::{BundleContext, ClusterName};
use super::select::select;
use super::source::set_types;

const EVENT: &str = "Event";
const CLUSTER: &str = "TanzuKubernetesCluster";
/// The row limit for an event table.
const MAX_EVENTS: usize = 20_000;

/// The events by namespace. Each row contains the last time the event happened, and the event's text.
type Events = BTreeMap<String, Vec<[String; 2]>>;

impl<W: Write> BundleContext<'_, W> {
    /// Writes the listed fields from all objects, and returns the clusters among them.
    pub async fn write_objects(&mut self, rules: &[KindRule]) -> Result<Vec<ClusterName>> {
        let mut clusters = Vec::new();
        for rule in rules {
            let mut events = Events::new();
            for mut list in self.source.lists(rule) {
                loop {
                    match list.next().await {
                        Ok(Some(objects)) => {
                            for object in objects {
                                let cluster = self.write_object(rule, object, &mut events)?;
                                clusters.extend(cluster.filter(|_| rule.kind == CLUSTER));
                            }
                        }
                        Ok(None) => break,
                        Err(error) => {
                            self.contents.miss(&rule.resource(), list.namespace.as_deref(), &error);
                            break;
                        }
                    }
                }
            }
            self.write_events(events)?;
        }
        Ok(clusters)
    }

    /// Writes one object, and returns its namespace and name. Adds events to `events` instead. Returns `None` for
    /// events and for objects that the rule excludes by name.
    fn write_object(
        &mut self,
        rule: &KindRule,
        mut object: Value,
        events: &mut Events,
    ) -> Result<Option<ClusterName>> {
        let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (of("namespace"), of("name"));
        if !rule.is_about(&name) {
            return Ok(None);
        }
        set_types(&mut object, rule);
        let taken = select(&object, &rule.fields, self.contents.left_out_of(&rule.kind));
        if rule.kind == EVENT {
            let row = row(&taken);
            if self.since.is_none_or(|since| is_within(&row[0], since)) {
                events.entry(namespace).or_default().push(row);
            }
            return Ok(None);
        }
        let folder =
            if namespace.is_empty() { "cluster".to_owned() } else { format!("namespaces/{namespace}") };
        // Some kinds allow a colon in object names.
        let path = format!("{folder}/{}/{}.yaml", rule.resource(), name.replace(['/', ':'], "_"));
        self.archive.add(&path, self.scrubber.object(taken)?)?;
        Ok(Some(ClusterName { namespace, name }))
    }

    fn write_events(&mut self, events: Events) -> Result<()> {
        for (namespace, mut rows) in events {
            rows.sort();
            let excess = rows.len().saturating_sub(MAX_EVENTS);
            if excess > 0 {
                self.contents
                    .shorten(&format!("events of namespace {namespace}: the oldest {excess} are left out"));
            }
            let lines: Vec<_> = rows.split_off(excess).iter().map(|row| row.join("   ")).collect();
            let text = lines.join("\n") + "\n";
            self.archive.add(&format!("namespaces/{namespace}/events.txt"), self.scrubber.text(&text))?;
        }
        Ok(())
    }
}

/// Returns the last time an event happened, and its text.
fn row(event: &Value) -> [String; 2] {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let first =
        |pointers: &[&str]| pointers.iter().find_map(|pointer| text(pointer)).unwrap_or("-").to_owned();
    let time = first(&[
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ]);
    let count = ["/series/count", "/count"].iter().find_map(|pointer| event.pointer(pointer)?.as_u64());
    let rest = [
        first(&["/type"]),
        format!("{}/{}", first(&["/involvedObject/kind"]), first(&["/involvedObject/name"])),
        first(&["/reason"]),
        format!("×{}", count.unwrap_or(1)),
        first(&["/reportingComponent", "/source/component"]),
        first(&["/message"]).replace('\n', " "),
    ];
    [time, rest.join("   ")]
}

fn is_within(time: &str, since: Duration) -> bool {
    let Ok(time) = time.parse::<Timestamp>() else { return true };
    Timestamp::now().duration_since(time).unsigned_abs() <= since
}
