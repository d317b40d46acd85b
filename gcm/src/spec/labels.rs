//! Determines how labels of node pools reach nodes.

use std::collections::BTreeMap;

/// Labels in Kubernetes' own domains that a kubelet may set on its node.
const WELL_KNOWN: [&str; 7] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
];

/// Returns true if a kubelet may set this label on its node. Cluster API sets some of the other labels.
pub fn kubelet_may_set(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    within("kubelet.kubernetes.io") || within("node.kubernetes.io") || WELL_KNOWN.contains(&key)
}

/// Returns true if Cluster API copies this label from a Machine to its node.
pub fn machine_label_reaches_node(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain == "node-role.kubernetes.io"
        || ["node-restriction.kubernetes.io", "node.cluster.x-k8s.io"]
            .iter()
            .any(|parent| domain == *parent || domain.ends_with(&format!(".{parent}")))
}

/// Returns the labels with which a kubelet registers its node. Cluster API copies the other labels to existing nodes.
pub fn registered_labels(labels: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let registers = |key: &str| kubelet_may_set(key) && !machine_label_reaches_node(key);
    let labels = labels.iter().filter(|(key, _)| registers(key));
    labels.map(|(key, value)| (key.as_str(), value.as_str())).collect()
}
