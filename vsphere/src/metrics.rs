//! Metrics about vCenter calls: counts, outcomes and durations.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    method: String,
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: String,
}

/// The metrics of one or more clients. Clones share their counters.
#[derive(Clone, Debug)]
pub struct CallMetrics {
    calls: Family<Call, Counter>,
    seconds: Family<Method, Histogram, fn() -> Histogram>,
    logins: Counter,
    pub(crate) width: Gauge,
    pub(crate) in_flight: Gauge,
    pub(crate) vms: Gauge,
}

fn buckets() -> Histogram {
    Histogram::new([0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            seconds: Family::new_with_constructor(buckets as fn() -> Histogram),
            logins: Counter::default(),
            width: Gauge::default(),
            in_flight: Gauge::default(),
            vms: Gauge::default(),
        }
    }
}

impl CallMetrics {
    /// Creates metrics and registers them with the prefix `vcenter_`.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("vcenter");
        registry.register("calls", "Calls to vCenter by method and outcome", metrics.calls.clone());
        registry.register_with_unit(
            "call_duration",
            "Time of calls to vCenter",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register("logins", "Logins to vCenter", metrics.logins.clone());
        registry.register("gate_width", "Limit of concurrent calls", metrics.width.clone());
        registry.register("calls_in_flight", "Calls that are in flight", metrics.in_flight.clone());
        registry.register("inventory_machines", "Virtual machines in the cache", metrics.vms.clone());
        metrics
    }

    pub(crate) fn count(&self, method: &str, outcome: &str, took: Duration) {
        let call = Call { method: method.to_owned(), outcome: outcome.to_owned() };
        self.calls.get_or_create(&call).inc();
        self.seconds.get_or_create(&Method { method: method.to_owned() }).observe(took.as_secs_f64());
    }

    pub(crate) fn logged_in(&self) {
        self.logins.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_by_method_and_outcome() {
        let mut registry = Registry::default();
        let metrics = CallMetrics::registered(&mut registry);
        metrics.count("CloneVM_Task", "DuplicateName", Duration::from_millis(7));
        metrics.logged_in();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let lines = [
            r#"vcenter_calls_total{method="CloneVM_Task",outcome="DuplicateName"} 1"#,
            r#"vcenter_call_duration_seconds_count{method="CloneVM_Task"} 1"#,
            "vcenter_logins_total 1",
        ];
        for line in lines {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
