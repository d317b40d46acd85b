//! The CustomResourceDefinitions of the kinds we own, as an administrator applies them.
//!
//! Derived schemas are made fit here: Rust's defaults are taken out, because a `default` in a CRD
//! makes the API server write it into every object, and the labels by which Cluster API and
//! clusterctl know our kinds are put on.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ServiceReference, ValidationRule, WebhookClientConfig,
    WebhookConversion,
};
use kube::CustomResourceExt;

use crate::names::label;
use crate::rules::{self, Rule};
use crate::{capw, cns, gcm, ipam, net, topology, vmop};

/// The namespace of gcm and of its webhook's Service.
pub const CONVERSION_NAMESPACE: &str = "vmware-system-tkg";
/// The Service that converts TanzuKubernetesClusters.
pub const CONVERSION_SERVICE: &str = "vmware-system-tkg-webhook-service";
/// The certificate of that Service, as cert-manager knows it.
pub const CONVERSION_CERTIFICATE: &str = "vmware-system-tkg-serving-cert";
/// The path at which it converts.
pub const CONVERSION_PATH: &str = "/convert";

/// Every CustomResourceDefinition we own.
pub fn all() -> Vec<CustomResourceDefinition> {
    let wcp = [
        capw::WCPCluster::crd(),
        capw::WCPClusterTemplate::crd(),
        capw::WCPMachine::crd(),
        capw::WCPMachineTemplate::crd(),
        capw::ProviderServiceAccount::crd(),
    ];
    let owned = [
        vmop::VirtualMachine::crd(),
        vmop::VirtualMachineService::crd(),
        vmop::VirtualMachineSetResourcePolicy::crd(),
        vmop::VirtualMachinePublishRequest::crd(),
        vmop::WebConsoleRequest::crd(),
        net::VirtualNetwork::crd(),
        net::VirtualNetworkInterface::crd(),
    ];
    let shared = [
        gcm::TanzuKubernetesRelease::crd(),
        gcm::OSImage::crd(),
        tkg_service_configuration(),
        vmop::VirtualMachineClass::crd(),
        vmop::VirtualMachineClassBinding::crd(),
        vmop::VirtualMachineImage::crd(),
        vmop::ContentLibraryProvider::crd(),
        vmop::ContentSource::crd(),
        vmop::ContentSourceBinding::crd(),
    ];
    let mut crds = vec![labelled(tanzu_kubernetes_cluster(), &[(label::CLUSTERCTL_MOVE_HIERARCHY, "")])];
    crds.extend(wcp.into_iter().map(|crd| {
        let labels = [(label::CONTRACT_V1BETA2, capw::VERSION), (label::PROVIDER, "infrastructure-wcp")];
        labelled(crd, &labels)
    }));
    crds.extend(owned.into_iter().map(|crd| labelled(crd, &[])));
    crds.extend(shared.into_iter().map(|crd| labelled(crd, &[(label::CLUSTERCTL_MOVE, "")])));
    crds.into_iter().map(fit).collect()
}

/// The definitions of others' kinds that we read, for where nobody else brings them: a simulated site.
///
/// They have the fields that are read, and what others may not be refused for stays unchecked.
pub fn external() -> Vec<CustomResourceDefinition> {
    let plain = [
        net::netoperator::NetworkInterface::crd(),
        cns::CnsNodeVmAttachment::crd(),
        topology::AvailabilityZone::crd(),
        topology::Zone::crd(),
    ];
    // As the in-cluster provider and clusterctl label them: addresses do not move without their pools.
    let pools = [ipam::InClusterIpPool::crd(), ipam::GlobalInClusterIpPool::crd()]
        .map(|crd| labelled(crd, &[(label::CLUSTERCTL_MOVE_HIERARCHY, "")]));
    plain.into_iter().chain(pools).map(fit).collect()
}

/// The three versions of TanzuKubernetesCluster in one definition, converted by gcm's webhook.
fn tanzu_kubernetes_cluster() -> CustomResourceDefinition {
    let version = |mut crd: CustomResourceDefinition, name: &str| {
        let version = crd.spec.versions.remove(0);
        let storage = name == "v1alpha3";
        CustomResourceDefinitionVersion { name: name.to_owned(), storage, ..version }
    };
    let mut crd = gcm::v1alpha3::TanzuKubernetesCluster::crd();
    crd.spec.versions = vec![
        version(gcm::v1alpha1::TanzuKubernetesCluster::crd(), "v1alpha1"),
        // v1alpha2 has the fields of v1alpha3.
        version(gcm::v1alpha3::TanzuKubernetesCluster::crd(), "v1alpha2"),
        version(gcm::v1alpha3::TanzuKubernetesCluster::crd(), "v1alpha3"),
    ];
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    name: CONVERSION_SERVICE.to_owned(),
                    namespace: CONVERSION_NAMESPACE.to_owned(),
                    path: Some(CONVERSION_PATH.to_owned()),
                    port: Some(443),
                }),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    let inject_from = format!("{CONVERSION_NAMESPACE}/{CONVERSION_CERTIFICATE}");
    crd.metadata
        .annotations
        .get_or_insert_default()
        .insert("cert-manager.io/inject-ca-from".to_owned(), inject_from);
    crd
}

/// The three versions of TkgServiceConfiguration, which have the same fields: nothing is lost between them, and nobody has to
/// convert.
fn tkg_service_configuration() -> CustomResourceDefinition {
    let mut crd = gcm::TkgServiceConfiguration::crd();
    let stored = crd.spec.versions.remove(0);
    let versions = ["v1alpha1", "v1alpha2", "v1alpha3"].map(|name| {
        let storage = name == stored.name;
        CustomResourceDefinitionVersion { name: name.to_owned(), storage, ..stored.clone() }
    });
    crd.spec.versions = versions.into();
    crd
}

/// The label by which clusterctl finds a kind, and others.
fn labelled(mut crd: CustomResourceDefinition, labels: &[(&str, &str)]) -> CustomResourceDefinition {
    let all = crd.metadata.labels.get_or_insert_default();
    all.insert(label::CLUSTERCTL.to_owned(), String::new());
    all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    crd
}

/// The definition with schemas that are fit for an API server.
fn fit(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            fit_schema(schema);
            for rule in rules::all() {
                let meant = rule.versions.is_empty() || rule.versions.contains(&version.name.as_str());
                if rule.kind == kind && meant {
                    put_rule(schema, &rule);
                }
            }
        }
    }
    crd
}

fn fit_schema(schema: &mut JSONSchemaProps) {
    schema.default = None;
    one_line(&mut schema.description);
    // The API server checks these two by name only and warns of all others.
    if matches!(schema.format.as_deref(), Some("uint" | "uint32" | "uint64" | "uint16")) {
        schema.format = None;
    }
    let nested = schema.properties.iter_mut().flat_map(BTreeMap::values_mut);
    nested.for_each(fit_schema);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => fit_schema(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(fit_schema),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        fit_schema(values);
    }
}

/// Puts a rule where it belongs.
fn put_rule(schema: &mut JSONSchemaProps, rule: &Rule) {
    if let Some(place) = place(schema, rule.path) {
        place.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: rule.expression.clone(),
            message: Some(rule.message.to_owned()),
            ..ValidationRule::default()
        });
    }
}

/// The schema at a path: steps divided by dots, `[]` for the items of a list.
fn place<'a>(schema: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    let mut place = schema;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        place = place.properties.as_mut()?.get_mut(step.trim_end_matches("[]"))?;
        if step.ends_with("[]") {
            let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut place.items else { return None };
            place = items;
        }
    }
    Some(place)
}

/// Takes the line breaks of a doc comment out of a description.
fn one_line(description: &mut Option<String>) {
    if let Some(text) = description {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_place() {
        let written: usize = all()
            .iter()
            .flat_map(|crd| &crd.spec.versions)
            .map(|version| serde_json::to_string(version).unwrap().matches("\"rule\":").count())
            .sum();
        let versions = |rule: &Rule| match (rule.kind, rule.versions.len()) {
            ("TanzuKubernetesCluster" | "TkgServiceConfiguration", 0) => 3,
            (_, 0) => 1,
            (_, some) => some,
        };
        assert_eq!(written, rules::all().iter().map(versions).sum::<usize>());
    }

    #[test]
    fn no_default_reaches_the_api_server() {
        for crd in all() {
            // An OVF property of an image has a field of this name.
            let text = serde_json::to_string(&crd).unwrap().replace("\"default\":{\"description\"", "");
            assert!(!text.contains("\"default\":"), "{}", crd.spec.names.kind);
        }
    }

    #[test]
    fn names_are_those_cluster_api_computes() {
        let names: Vec<_> = all().into_iter().filter_map(|crd| crd.metadata.name).collect();
        for plural in ["wcpclusters", "wcpclustertemplates", "wcpmachines", "wcpmachinetemplates"] {
            assert!(names.contains(&format!("{plural}.{}", capw::GROUP)), "{names:?}");
        }
    }
}
