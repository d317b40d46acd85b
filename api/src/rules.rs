//! CEL validation rules in the CRDs, which the API server itself checks.
//!
//! These rules don't need a webhook and can't be bypassed. Rules that depend on other objects (classes, releases,
//! storage classes, overlapping networks), on the user, or on whether an object is new, are in the admission webhooks
//! of `gcm` and `vmop`. Rules that depend on the request, such as immutable templates, are in
//! config/capw/admission.yaml.

mod machine;
mod rule;
mod vmop;

pub use rule::Rule;
use rule::{fixed, once_set, only, rule, rules_at};

const TKC: &str = "TanzuKubernetesCluster";
const WITH_COUNT: &[&str] = &["v1alpha1"];
const WITH_REPLICAS: &[&str] = &["v1alpha2", "v1alpha3"];

/// Returns all rules.
pub fn all() -> Vec<Rule> {
    let mut rules = tanzu_kubernetes_cluster();
    rules.push(rule(
        "TkgServiceConfiguration",
        "",
        "self.metadata.name == 'tkg-service-configuration'",
        "only one configuration can exist, for all clusters; its name must be tkg-service-configuration",
    ));
    rules.extend(wcp());
    rules.extend(machine::all());
    rules.extend(vmop::all());
    rules
}

const NAME: &str =
    "self.metadata.name.size() <= 41 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')";
const NAME_MESSAGE: &str = "metadata.name must have at most 41 lower case letters, digits and hyphens, begin with a letter and end with a letter or a digit, because the name is part of the Service <name>-control-plane-service";
const ONE_OR_THREE: &str = "control plane can only be either 1 or 3 nodes";

fn tanzu_kubernetes_cluster() -> Vec<Rule> {
    let mut rules = vec![
        rule(TKC, "", NAME, NAME_MESSAGE),
        only(WITH_COUNT, rule(TKC, "spec.topology.controlPlane", "self.count in [1, 3]", ONE_OR_THREE)),
        only(
            WITH_REPLICAS,
            rule(
                TKC,
                "spec.topology.controlPlane",
                "!has(self.replicas) || self.replicas in [1, 3]",
                ONE_OR_THREE,
            ),
        ),
    ];
    let network = [
        ("cni", "updates to immutable fields are not allowed: settings.network.cni may not be changed"),
        ("pods", "updates to immutable fields are not allowed: settings.network.pods may not be changed"),
        (
            "services",
            "updates to immutable fields are not allowed: settings.network.services may not be changed",
        ),
        (
            "serviceDomain",
            "updates to immutable fields are not allowed: settings.network.serviceDomain may not be changed",
        ),
    ];
    for (field, message) in network {
        rules.push(rule(TKC, "spec.settings.network", &once_set(field), message));
    }
    // The API server skips a transition rule if its object is removed, so the parent can't be removed either.
    let kept = "updates to immutable fields are not allowed: settings.network may not be removed";
    rules.push(rule(
        TKC,
        "spec",
        "!has(oldSelf.settings) || !has(oldSelf.settings.network) || \
         (has(self.settings) && has(self.settings.network))",
        kept,
    ));
    let volume = [
        ("'storage' in self.capacity", "capacity.storage is required, for example 16Gi"),
        ("self.mountPath.startsWith('/')", "mountPath must begin with /"),
    ];
    let nodes = [
        (WITH_COUNT, "spec.topology.controlPlane.volumes[]"),
        (WITH_COUNT, "spec.topology.workers.volumes[]"),
        (WITH_REPLICAS, "spec.topology.controlPlane.volumes[]"),
        (WITH_REPLICAS, "spec.topology.nodePools[].volumes[]"),
    ];
    for (versions, path) in nodes {
        rules.extend(rules_at(TKC, path, volume).map(|rule| only(versions, rule)));
    }
    rules
}

fn wcp() -> Vec<Rule> {
    let mut rules = vec![
        rule(
            "WCPCluster",
            "spec",
            "!has(oldSelf.controlPlaneEndpoint) || oldSelf.controlPlaneEndpoint.host == '' || \
             (has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint)",
            "controlPlaneEndpoint may not be changed once it is set, because every node uses it",
        ),
        rule(
            "WCPMachine",
            "spec",
            &once_set("providerID"),
            "providerID may not be changed once it is set: it is the identity of the virtual machine",
        ),
    ];
    let fields = [
        "imageName",
        "className",
        "storageClass",
        "minHardwareVersion",
        "failureDomain",
        "volumes",
        "naming",
    ];
    for field in fields {
        let message = "imageName, className, storageClass, minHardwareVersion, failureDomain, volumes and naming may \
                       not be changed: replace the Machine";
        rules.push(rule("WCPMachine", "spec", &fixed(field), message));
    }
    rules.extend(naming("WCPMachine", "spec.naming.template"));
    rules.extend(naming("WCPMachineTemplate", "spec.template.spec.naming.template"));
    rules
}

/// Returns the rules for a naming template, as far as the template can be checked before a Machine exists.
fn naming(kind: &'static str, path: &'static str) -> [Rule; 2] {
    let rules = [
        (
            "self.matches('[{][{][^{}]*[.]machine[.]name[^{}]*[}][}]')",
            "template must contain {{ .machine.name }}: without it all Machines would get the same name",
        ),
        (
            "self.matches('^([-.a-z0-9]|[{][{][^{}]*[}][}])*$')",
            "template must have only lower case letters, digits, hyphens and dots around its {{ actions }}, as names of \
             nodes do",
        ),
    ];
    rules_at(kind, path, rules)
}
