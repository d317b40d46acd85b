//! Validation rules for VM Operator's kinds other than VirtualMachine.

use super::rule::{Rule, fixed, rule, rules_at};

pub(super) fn all() -> Vec<Rule> {
    let mut rules = guarantees();
    rules.extend(service());
    rules.extend(service_addresses());
    rules.extend(console());
    rules.extend(publish());
    rules.push(rule(
        "VirtualMachineSetResourcePolicy",
        "spec",
        "self == oldSelf",
        "spec may not be changed: field is immutable. Create another policy",
    ));
    rules
}

/// Returns rules that keep each reservation within its limit. A limit of 0 means unlimited.
fn guarantees() -> Vec<Rule> {
    let kept = |guarantee: &str, what: &str| {
        let has = |of: &str| format!("has(self.{of}) && has(self.{of}.{what})");
        let amount = |of: &str| format!("quantity(string(self.{of}.{what}))");
        format!(
            "!({} && {}) || {limit}.compareTo(quantity('0')) == 0 || {}.compareTo({limit}) <= 0",
            has(guarantee),
            has("limits"),
            amount(guarantee),
            limit = amount("limits"),
        )
    };
    let class = "VirtualMachineClass";
    let policy = "VirtualMachineSetResourcePolicy";
    let (resources, pool) = ("spec.policies.resources", "spec.resourcepool");
    vec![
        rule(
            class,
            resources,
            &kept("requests", "cpu"),
            "requests.cpu: CPU request must not be larger than the CPU limit",
        ),
        rule(
            class,
            resources,
            &kept("requests", "memory"),
            "requests.memory: memory request must not be larger than the memory limit",
        ),
        rule(
            policy,
            pool,
            &kept("reservations", "cpu"),
            "reservations.cpu: CPU reservation must not be larger than the CPU limit",
        ),
        rule(
            policy,
            pool,
            &kept("reservations", "memory"),
            "reservations.memory: memory reservation must not be larger than the memory limit",
        ),
    ]
}

const SERVICE: &str = "VirtualMachineService";

fn service() -> Vec<Rule> {
    vec![
        rule(
            SERVICE,
            "",
            "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must be a DNS-1035 label: at most 63 lower case letters, digits and hyphens, beginning with a \
             letter",
        ),
        rule(
            SERVICE,
            "spec",
            "self.type == 'ExternalName' || (has(self.clusterIp) && self.clusterIp == 'None') || \
             (has(self.ports) && self.ports.size() > 0)",
            "ports: Required value",
        ),
        rule(
            SERVICE,
            "spec.ports",
            "self.all(a, self.exists_one(b, a.port == b.port && a.protocol == b.protocol))",
            "ports must differ in protocol or port: Duplicate value",
        ),
        rule(
            SERVICE,
            "spec.ports[]",
            "self.protocol in ['TCP', 'UDP', 'SCTP']",
            "protocol has the supported values TCP, UDP and SCTP",
        ),
        rule(
            SERVICE,
            "spec.ports[]",
            "self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "name must be a DNS label: lower case letters, digits and hyphens",
        ),
        rule(SERVICE, "spec", "self.type == oldSelf.type", "type: field is immutable"),
        rule(SERVICE, "spec", &fixed("clusterIp"), "clusterIp: field is immutable"),
    ]
}

fn service_addresses() -> [Rule; 7] {
    let rules = [
        (
            "self.type != 'ExternalName' || (has(self.externalName) && \
             self.externalName.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\\\\.?$'))",
            "externalName: a service of type ExternalName requires a DNS name",
        ),
        (
            "self.type != 'ExternalName' || !has(self.clusterIp) || self.clusterIp == ''",
            "clusterIp: may not be set for ExternalName services",
        ),
        (
            "self.type != 'LoadBalancer' || !has(self.clusterIp) || self.clusterIp != 'None'",
            "clusterIp: may not be set to 'None' for LoadBalancer services",
        ),
        (
            "!has(self.clusterIp) || self.clusterIp in ['', 'None'] || isIP(self.clusterIp)",
            "clusterIp: must be an IP address, or None",
        ),
        (
            "!has(self.loadBalancerIP) || self.loadBalancerIP == '' || isIP(self.loadBalancerIP)",
            "loadBalancerIP: must be an IP address",
        ),
        (
            "!has(self.loadBalancerSourceRanges) || self.loadBalancerSourceRanges.size() == 0 || \
             self.type == 'LoadBalancer'",
            "loadBalancerSourceRanges: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            "!has(self.loadBalancerSourceRanges) || self.loadBalancerSourceRanges.all(range, isCIDR(range))",
            "loadBalancerSourceRanges: must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24",
        ),
    ];
    rules_at(SERVICE, "spec", rules)
}

fn console() -> Vec<Rule> {
    const KIND: &str = "WebConsoleRequest";
    vec![
        rule(KIND, "spec", "self == oldSelf", "virtualMachineName and publicKey: field is immutable"),
        rule(
            KIND,
            "spec",
            // RSA keys of all sizes start alike: first the PKCS#1 encoding, then X.509.
            "self.publicKey.matches('^-----BEGIN PUBLIC KEY-----\\\\s+\
             MI([A-Za-z0-9+/]{3,5}(KC|oG)[A-Za-z0-9+/]|[A-Za-z0-9+/]{6}BgkqhkiG9w0BAQEFAAOC|GfMA0GCSqGSIb3DQEBAQUAA4)')",
            "publicKey: must be an RSA key in PEM, BEGIN PUBLIC KEY",
        ),
    ]
}

fn publish() -> Vec<Rule> {
    const KIND: &str = "VirtualMachinePublishRequest";
    vec![
        rule(
            KIND,
            "spec.source",
            "!has(self.apiVersion) || self.apiVersion in ['', 'vmoperator.vmware.com/v1alpha1']",
            "apiVersion has the supported values: vmoperator.vmware.com/v1alpha1",
        ),
        rule(
            KIND,
            "spec.source",
            "!has(self.kind) || self.kind in ['', 'VirtualMachine']",
            "kind has the supported values: VirtualMachine",
        ),
        rule(
            KIND,
            "spec",
            "has(self.target) && has(self.target.location) && has(self.target.location.name) && \
             self.target.location.name != ''",
            "target.location.name: Required value: the library to publish to",
        ),
        rule(
            KIND,
            "spec.target.location",
            "(has(self.apiVersion) ? self.apiVersion : 'imageregistry.vmware.com/v1alpha1') + ' ' + \
             (has(self.kind) ? self.kind : 'ContentLibrary') in ['imageregistry.vmware.com/v1alpha1 ContentLibrary', \
             'vmoperator.vmware.com/v1alpha1 ContentLibraryProvider', 'vmoperator.vmware.com/v1alpha1 ContentSource']",
            "apiVersion and kind have the supported values: imageregistry.vmware.com/v1alpha1 ContentLibrary, or \
             vmoperator.vmware.com/v1alpha1 ContentLibraryProvider or ContentSource",
        ),
        rule(KIND, "spec", &fixed("source"), "source: field is immutable"),
        rule(KIND, "spec", &fixed("target"), "target: field is immutable"),
    ]
}
