//! Templates in bundles: files that end in `.jinja`, and in them the names of typed values. There are no other expressions
//! and no statements, so that nobody's bundle costs this program more than its own length.

use bounds::Budget;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use super::bundle::BundleError;

/// What a file is named that is a template.
pub const TEMPLATE: &str = ".jinja";

/// What templates may name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Values {
    /// The first range of the Pods' addresses.
    pub pod_cidr: String,
    /// The first range of the Services' addresses.
    pub service_cidr: String,
    /// The domain of Services.
    pub service_domain: String,
    /// The cluster's name.
    pub cluster_name: String,
    /// The cluster's namespace.
    pub cluster_namespace: String,
    /// The id of the cluster, which outlives moves.
    pub cluster_id: String,
    /// The host of the control plane's endpoint.
    pub control_plane_host: String,
    /// Its port.
    pub control_plane_port: u16,
    /// The version of Kubernetes, with a `v`.
    pub kubernetes_version: String,
    /// The value of the label that nodes of the release have; no name of templates.
    #[serde(skip)]
    pub node_release: String,
}

/// What a template's engine makes of each name in it, in bytes.
const EXPRESSION: usize = 256;

impl Values {
    /// Bytes of the longest value.
    fn longest(&self) -> usize {
        let Self { pod_cidr, service_cidr, service_domain, cluster_name, .. } = self;
        let Self { cluster_namespace, cluster_id, control_plane_host, kubernetes_version, .. } = self;
        let names = [pod_cidr, service_cidr, service_domain, cluster_name, cluster_namespace, cluster_id];
        names
            .into_iter()
            .chain([control_plane_host, kubernetes_version])
            .map(String::len)
            .max()
            .unwrap_or_default()
    }
}

/// The names of the values, as templates write them.
const NAMES: [&str; 9] = [
    "pod_cidr",
    "service_cidr",
    "service_domain",
    "cluster_name",
    "cluster_namespace",
    "cluster_id",
    "control_plane_host",
    "control_plane_port",
    "kubernetes_version",
];

/// The text with values in the places of their names, within the budget.
///
/// # Errors
/// What is neither text nor the name of a value, with its place. Quotes nothing: a file can come from a Secret.
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
