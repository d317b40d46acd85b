//! Adds TanzuKubernetesCluster fields to the remedies in capw's messages.
//!
//! capw also serves plain Cluster API clusters, so its messages don't name TanzuKubernetesCluster fields. Programs that
//! show such a message for a TanzuKubernetesCluster add the field.

/// Phrases in capw's messages, each with the matching TanzuKubernetesCluster field.
pub const FIELDS: [(&str, &str); 4] = [
    ("a volume for /var/lib/containerd", "spec.topology"),
    ("Give the nodes the registry's certificate authority", "spec.settings.network.trust"),
    ("Check their proxy and certificate authorities", "spec.settings.network.proxy and trust"),
    ("Use a larger virtual machine class", "spec.topology"),
];

/// Returns capw's message with the matching TanzuKubernetesCluster field after each remedy in [`FIELDS`].
#[must_use]
pub fn with_fields(message: &str) -> String {
    FIELDS.iter().fold(message.to_owned(), |message, (remedy, field)| match message.rsplit_once(remedy) {
        Some((before, after)) => format!("{before}{remedy} ({field}){after}"),
        None => message,
    })
}

#[test]
fn a_remedy_gets_its_field() {
    let plain = "VirtualMachine ns/a: kubeadm join failed: x509. Give the nodes the registry's certificate authority. Read the log";
    let expected = "VirtualMachine ns/a: kubeadm join failed: x509. Give the nodes the registry's certificate authority \
                    (spec.settings.network.trust). Read the log";
    assert_eq!(with_fields(plain), expected);
    assert_eq!(with_fields("Set the clock"), "Set the clock");
    let guest = "Use a larger virtual machine class: 1. Use a larger virtual machine class";
    assert!(with_fields(guest).ends_with("class (spec.topology)"), "a guest's own words come first");
}
