//! The names of a cluster's objects. Each is made of what the object stands for, so that a lost write is repeated.

use api::names::hash;
use serde_json::Value;

/// The control plane of cluster `c`.
pub fn control_plane(cluster: &str) -> String {
    format!("{cluster}-control-plane")
}

/// The MachineDeployment of a node pool, and its MachineHealthCheck.
///
/// The suffix keeps pool `b-c` of cluster `a` and pool `c` of cluster `a-b` apart.
pub fn pool(namespace: &str, cluster: &str, pool: &str) -> String {
    format!("{cluster}-{pool}-{}", hash([namespace, cluster, pool]))
}

/// A template of group `group` (the control plane or a pool) with this content.
pub fn template(namespace: &str, cluster: &str, group: &str, content: &Value) -> String {
    let content = content.to_string();
    format!("{cluster}-{group}-{}", hash([namespace, cluster, group, &content]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_stable_and_tell_pools_apart() {
        assert_eq!(pool("ns", "a", "b-c"), pool("ns", "a", "b-c"));
        assert_ne!(pool("ns", "a", "b-c"), pool("ns", "a-b", "c"));
        assert_ne!(pool("ns", "a", "b"), pool("other", "a", "b"));
        let (small, large) = (json!({"className": "small"}), json!({"className": "large"}));
        assert_ne!(template("ns", "a", "b", &small), template("ns", "a", "b", &large));
        assert!(template("ns", "a", "b", &small).len() == "a-b-".len() + 5);
    }
}
