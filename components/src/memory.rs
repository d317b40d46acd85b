//! The memory limits of Cluster API's managers.
//!
//! Upstream doesn't limit Cluster API's own managers, and a manager keeps whatever a workload cluster's API server
//! sends. The kernel kills a manager that exceeds its limit, before its node runs out of memory. The Go runtime's limit
//! triggers garbage collection before that.

use serde_json::{Value, json};

/// A program's memory request and limit, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The memory that is reserved on a node.
    pub request_mib: u32,
    /// The memory use at which the program is killed.
    pub limit_mib: u32,
}

/// The environment variable with the container's memory limit in MiB.
const LIMIT: &str = "MEMORY_LIMIT_MIB";
/// The environment variable with the Go runtime's soft memory limit in bytes. Near the limit, Go collects garbage as often
/// as needed.
pub const GO_LIMIT: &str = "GOMEMLIMIT";

impl Memory {
    /// Sets a container's memory request and limit, and the Go runtime's memory limit.
    ///
    /// The kubelet computes the Go limit from the container limit, so that an administrator raises both with one value.
    /// The Go limit is 95 % of the container limit: a million bytes for each MiB.
    pub(crate) fn bound(self, container: &mut Value) {
        let Some(fields) = container.as_object_mut() else { return };
        let resources = fields.entry("resources").or_insert_with(|| json!({}));
        resources["requests"]["memory"] = mib(self.request_mib);
        resources["limits"]["memory"] = mib(self.limit_mib);
        let variables = [
            json!({
                "name": LIMIT,
                "valueFrom": { "resourceFieldRef": { "resource": "limits.memory", "divisor": "1Mi" } },
            }),
            json!({ "name": GO_LIMIT, "value": format!("$({LIMIT})000000") }),
        ];
        if let Some(env) = fields.entry("env").or_insert_with(|| json!([])).as_array_mut() {
            env.extend(variables);
        }
    }
}

fn mib(amount: u32) -> Value {
    format!("{amount}Mi").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_and_its_runtime_get_one_limit() {
        let mut container = json!({
            "name": "manager", "env": [{ "name": "POD_NAME", "value": "a" }],
            "resources": { "limits": { "cpu": "500m", "memory": "128Mi" }, "requests": { "cpu": "10m" } },
        });
        Memory { request_mib: 64, limit_mib: 1024 }.bound(&mut container);
        assert_eq!(
            container["resources"],
            json!({
                "limits": { "cpu": "500m", "memory": "1024Mi" }, "requests": { "cpu": "10m", "memory": "64Mi" },
            })
        );
        let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        // A variable can only refer to earlier variables.
        assert_eq!(names, ["POD_NAME", LIMIT, GO_LIMIT]);
        assert_eq!(container["env"][2]["value"], "$(MEMORY_LIMIT_MIB)000000");
        let mut bare = json!({ "name": "manager" });
        Memory { request_mib: 64, limit_mib: 1024 }.bound(&mut bare);
        assert_eq!(bare["resources"]["limits"]["memory"], "1024Mi");
    }
}
