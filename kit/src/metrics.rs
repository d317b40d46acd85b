//! Prometheus metrics for a controller: reconciles by outcome, their duration, and API writes.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// A program's metrics registry and the metric families that all controllers share.
pub struct Metrics {
    registry: Mutex<Registry>,
    reconciles: Family<Reconcile, Counter>,
    seconds: Family<Of, Histogram, fn() -> Histogram>,
    writes: Family<Write, Counter>,
    dropped_events: Family<Of, Counter>,
    leader: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconcile {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    manager: &'static str,
    kind: String,
    verb: &'static str,
}

impl Metrics {
    /// The content type for [`Self::text`].
    pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Creates a registry with the metric families that all controllers share.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let reconciles = Family::default();
        let seconds = Family::<Of, Histogram>::new_with_constructor(histogram);
        let writes = Family::default();
        let dropped_events = Family::default();
        let leader = Gauge::default();
        registry.register("reconciles", "Reconciles by controller and outcome", reconciles.clone());
        registry.register("reconcile_seconds", "Seconds a reconcile takes", seconds.clone());
        registry.register("api_writes", "Writes to the API server", writes.clone());
        registry.register(
            "events_dropped",
            "Events that were dropped because there were too many",
            dropped_events.clone(),
        );
        registry.register("leader", "1 while this replica holds the lease", leader.clone());
        Self { registry: Mutex::new(registry), reconciles, seconds, writes, dropped_events, leader }
    }

    /// Registers further metric families. Crates use this for their own metrics.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// Counts one reconcile with this outcome, and records the duration `took`.
    pub fn reconciled(&self, controller: &'static str, outcome: &'static str, took: Duration) {
        self.reconciles.get_or_create(&Reconcile { controller, outcome }).inc();
        self.seconds.get_or_create(&Of { controller }).observe(took.as_secs_f64());
    }

    /// Counts one write to the API server, by field manager, kind and verb.
    pub fn wrote(&self, manager: &'static str, kind: &str, verb: &'static str) {
        self.writes.get_or_create(&Write { manager, kind: kind.to_owned(), verb }).inc();
    }

    /// Counts an event that is dropped instead of published.
    pub(crate) fn dropped_event(&self, controller: &'static str) {
        self.dropped_events.get_or_create(&Of { controller }).inc();
    }

    pub(crate) fn set_leading(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry.lock());
        text
    }
}

fn histogram() -> Histogram {
    Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reconcile_shows_up_by_controller_and_outcome() {
        let metrics = Metrics::new();
        metrics.reconciled("wcpmachine", "Waiting", Duration::from_millis(2));
        metrics.wrote("capw/machine", "VirtualMachine", "apply");
        let text = metrics.text();
        assert!(text.contains(r#"reconciles_total{controller="wcpmachine",outcome="Waiting"} 1"#), "{text}");
        assert!(text.contains(r#"reconcile_seconds_bucket{le="0.003",controller="wcpmachine"} 1"#), "{text}");
        assert!(
            text.contains(r#"api_writes_total{manager="capw/machine",kind="VirtualMachine",verb="apply"} 1"#)
        );
    }
}
