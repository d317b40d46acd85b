//! Renders bundle templates: files whose names end in `.jinja`. Expressions can only name the values in [`Values`]. Other
//! expressions and statements aren't supported, so that the rendering cost depends only on the bundle size.

use bounds::Budget;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use super::bundle::BundleError;

/// The file name extension for templates.
pub const TEMPLATE: &str = ".jinja";

/// The values that templates can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Values {
    /// The first of the cluster's pod ranges.
    pub pod_cidr: String,
    /// The first of the cluster's service ranges.
    pub service_cidr: String,
    /// The DNS domain of the cluster's services.
    pub service_domain: String,
    pub cluster_name: String,
    pub cluster_namespace: String,
    /// The cluster id, which doesn't change when the cluster is moved.
    pub cluster_id: String,
    /// The control plane endpoint's host.
    pub control_plane_host: String,
    /// The control plane endpoint's port.
    pub control_plane_port: u16,
    /// The Kubernetes version with the prefix `v`.
    pub kubernetes_version: String,
    /// flannel's backend, as JSON.
    pub flannel_backend: String,
    /// The value of the nodes' release label. Templates can't use it.
    #[serde(skip)]
    pub node_release: String,
}

/// The memory that the template engine uses per expression, in bytes.
const EXPRESSION: usize = 256;

impl Values {
    /// Returns the length, in bytes, of the longest string value.
    fn longest(&self) -> usize {
        let Self { pod_cidr, service_cidr, service_domain, cluster_name, .. } = self;
        let Self { cluster_namespace, cluster_id, control_plane_host, .. } = self;
        let Self { kubernetes_version, flannel_backend, .. } = self;
        let names = [pod_cidr, service_cidr, service_domain, cluster_name, cluster_namespace, cluster_id];
        names
            .into_iter()
            .chain([control_plane_host, kubernetes_version, flannel_backend])
            .map(String::len)
            .max()
            .unwrap_or_default()
    }
}

/// The names that templates can use.
const NAMES: [&str; 10] = [
    "pod_cidr",
    "service_cidr",
    "service_domain",
    "cluster_name",
    "cluster_namespace",
    "cluster_id",
    "control_plane_host",
    "control_plane_port",
    "kubernetes_version",
    "flannel_backend",
];

/// Renders a template within the budget.
///
/// # Errors
/// Returns an error with the line number if an expression or statement isn't supported, or if the budget is exceeded. The error
/// doesn't quote the template, because the file can come from a Secret.
pub fn render(text: &str, values: &Values, budget: &Budget) -> Result<String, BundleError> {
    check(text)?;
    let expressions = text.matches("{{").count();
    budget.spend(text.len().saturating_add(expressions.saturating_mul(values.longest() + EXPRESSION)))?;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let rendered = environment.render_str(text, minijinja::value::Serde(values));
    Ok(rendered.map_err(|error| format!("it can't be rendered: {}", error.kind()))?)
}

fn check(text: &str) -> Result<(), String> {
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: &str| {
            format!("line {}: {what}. A template can hold {{{{ NAME }}}} of {}", at + 1, NAMES.join(", "))
        };
        if line.contains("{%") || line.contains("{#") {
            return Err(wrong("statements and comments are not supported"));
        }
        for (count, expression) in line.split("{{").enumerate().skip(1) {
            let (name, _) = expression.split_once("}}").ok_or_else(|| wrong("{{ is not closed"))?;
            if !NAMES.contains(&name.trim()) {
                return Err(wrong(&format!("expression {count} of the line is not the name of a value")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_names_stood_and_nothing_else_is_run() {
        let values = Values { pod_cidr: "10.1.0.0/16".into(), control_plane_port: 6443, ..Values::default() };
        let text = "Network: \"{{ pod_cidr }}\"\nport: {{control_plane_port}}\n";
        assert_eq!(
            render(text, &values, &Budget::new(10_000)).unwrap(),
            "Network: \"10.1.0.0/16\"\nport: 6443"
        );
        for (text, part) in [
            ("a\n{{ pod_cidr * 1000000 }}", "line 2"),
            ("{{ pod_cidr }} {{ hidden }}", "line 1: expression 2 of the line is not the name of a value"),
            ("{% for a in range(99999999) %}x{% endfor %}", "statements"),
            ("{{ pod_cidr", "not closed"),
            ("{{ pod_cidr | upper }}", "not the name of a value"),
        ] {
            let error = render(text, &values, &Budget::new(10_000)).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("pod_cidr"), "{text}: {error}");
            assert!(!error.contains("hidden"), "{error}");
        }
        let long = Values { service_domain: "x".repeat(253), ..Values::default() };
        let many = "{{service_domain}}".repeat(100);
        assert!(render(&many, &long, &Budget::new(60_000)).is_ok());
        assert!(matches!(render(&many, &long, &Budget::new(40_000)), Err(BundleError::Exceeded(_))));
        let all = serde_json::to_value(&values).unwrap();
        assert_eq!(all.as_object().unwrap().len(), NAMES.len());
        assert!(NAMES.iter().all(|name| all.get(name).is_some()));
    }
}
