//! CustomResourceDefinitions for Layercake's kinds.
//!
//! This module adapts the derived schemas: it removes defaults, because the API server would write a `default` into
//! every object, and adds the labels that Cluster API and clusterctl look for. Every spec field that tenants can write
//! gets a size limit.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ServiceReference, ValidationRule, WebhookClientConfig,
    WebhookConversion,
};
use kube::CustomResourceExt;

use crate::names::{GCM_NAMESPACE, VMOP_NAMESPACE, label};
use crate::rules::{self, Rule};
use crate::{capw, cns, gcm, net, topology, vmop};

/// The HTTP path of the conversion webhooks.
pub const CONVERSION_PATH: &str = "/convert";
/// The conversion webhook of gcm, for TanzuKubernetesClusters.
const GCM: Converter = Converter {
    namespace: GCM_NAMESPACE,
    service: "vmware-system-tkg-webhook-service",
    certificate: "vmware-system-tkg-serving-cert",
};
/// The conversion webhook of the VM operator, for VirtualMachines.
const VM_OPERATOR: Converter = Converter {
    namespace: VMOP_NAMESPACE,
    service: "vmware-system-vmop-webhook-service",
    certificate: "vmware-system-vmop-serving-cert",
};

/// The default maximum length of a text field that tenants can write.
const LONGEST_TEXT: i64 = 4096;
/// The default maximum number of entries in a list or map that tenants can write.
const MOST_ENTRIES: i64 = 256;

/// A conversion webhook.
struct Converter {
    /// The Service namespace.
    namespace: &'static str,
    /// The Service name.
    service: &'static str,
    /// The name of the Service's cert-manager Certificate.
    certificate: &'static str,
}

/// Returns the CustomResourceDefinitions for all of Layercake's kinds.
pub fn all() -> Vec<CustomResourceDefinition> {
    let wcp = [
        capw::WCPCluster::crd(),
        capw::WCPClusterTemplate::crd(),
        capw::WCPMachine::crd(),
        capw::WCPMachineTemplate::crd(),
        capw::ProviderServiceAccount::crd(),
    ];
    let owned = [
        virtual_machine(),
        for_guests(in_versions(vmop::VirtualMachineService::crd(), &["v1alpha1", "v1alpha2"])),
        vmop::VirtualMachineSetResourcePolicy::crd(),
        vmop::VirtualMachinePublishRequest::crd(),
        vmop::WebConsoleRequest::crd(),
        net::VirtualNetwork::crd(),
        net::VirtualNetworkInterface::crd(),
    ];
    let shared = [
        gcm::TanzuKubernetesRelease::crd(),
        gcm::OSImage::crd(),
        in_versions(gcm::TkgServiceConfiguration::crd(), &["v1alpha1", "v1alpha2", "v1alpha3"]),
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
    crds.into_iter().map(fit).map(limited).collect()
}

/// Returns CustomResourceDefinitions for foreign kinds that Layercake reads, for a simulated site, where they don't
/// exist otherwise.
///
/// They contain only the fields that Layercake reads, and don't validate objects from other programs.
pub fn external() -> Vec<CustomResourceDefinition> {
    [
        net::netoperator::NetworkInterface::crd(),
        cns::CnsNodeVmAttachment::crd(),
        topology::AvailabilityZone::crd(),
        topology::Zone::crd(),
    ]
    .map(fit)
    .into()
}

/// Returns the TanzuKubernetesCluster definition with three versions, which gcm's webhook converts.
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
    converted_by(crd, &GCM)
}

/// Returns the VirtualMachine definition with the stored version and the one for workload clusters. The VM operator's
/// webhook converts them.
fn virtual_machine() -> CustomResourceDefinition {
    let mut crd = vmop::VirtualMachine::crd();
    let shown = vmop::v1alpha2::VirtualMachine::crd().spec.versions;
    let shown =
        shown.into_iter().map(|version| CustomResourceDefinitionVersion { storage: false, ..version });
    crd.spec.versions.extend(shown);
    converted_by(for_guests(crd), &VM_OPERATOR)
}

/// Serves only the stored version, until an administrator enables the newer one (docs/vm-api.md).
///
/// kubectl and Kubernetes controllers that watch all kinds use the newest served version, so each object and each
/// change would be converted for them.
fn for_guests(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.served = version.storage;
    }
    crd
}

/// Adds versions with identical fields, for which the API server needs no conversion webhook.
fn in_versions(mut crd: CustomResourceDefinition, names: &[&str]) -> CustomResourceDefinition {
    let stored = crd.spec.versions.remove(0);
    let versions = names.iter().map(|name| {
        let storage = *name == stored.name;
        CustomResourceDefinitionVersion { name: (*name).to_owned(), storage, ..stored.clone() }
    });
    crd.spec.versions = versions.collect();
    crd
}

/// Adds a conversion webhook to a definition.
fn converted_by(mut crd: CustomResourceDefinition, converter: &Converter) -> CustomResourceDefinition {
    let Converter { namespace, service, certificate } = converter;
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    name: (*service).to_owned(),
                    namespace: (*namespace).to_owned(),
                    path: Some(CONVERSION_PATH.to_owned()),
                    port: Some(443),
                }),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    crd.metadata
        .annotations
        .get_or_insert_default()
        .insert("cert-manager.io/inject-ca-from".to_owned(), format!("{namespace}/{certificate}"));
    crd
}

/// Adds labels, including the one that clusterctl uses to discover kinds.
fn labelled(mut crd: CustomResourceDefinition, labels: &[(&str, &str)]) -> CustomResourceDefinition {
    let all = crd.metadata.labels.get_or_insert_default();
    all.insert(label::CLUSTERCTL.to_owned(), String::new());
    all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    crd
}

/// Adapts the schemas of a definition for the API server, and adds the validation rules.
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
    // For integers, the API server knows only the formats `int32` and `int64`, and warns about others.
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

/// Adds size limits to all texts, lists and maps in specs that tenants write, because controllers cache them.
fn limited(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    if crd.spec.scope == "Namespaced" {
        let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
        let roots = schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()?.properties.as_mut());
        roots.filter_map(|parts| parts.get_mut("spec")).for_each(limit);
    }
    crd
}

fn limit(schema: &mut JSONSchemaProps) {
    let is_text =
        schema.type_.as_deref() == Some("string") || schema.x_kubernetes_int_or_string == Some(true);
    if is_text && schema.enum_.is_none() && schema.format.is_none() {
        schema.max_length.get_or_insert(LONGEST_TEXT);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        schema.max_properties.get_or_insert(MOST_ENTRIES);
        limit(values);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => {
            schema.max_items.get_or_insert(MOST_ENTRIES);
            limit(items);
        }
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(limit),
        None => {}
    }
    schema.properties.iter_mut().flat_map(BTreeMap::values_mut).for_each(limit);
}

/// Adds a rule to the part of the schema at the rule's path.
fn put_rule(schema: &mut JSONSchemaProps, rule: &Rule) {
    if let Some(place) = place(schema, rule.path) {
        place.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: rule.expression.clone(),
            message: Some(rule.message.to_owned()),
            ..ValidationRule::default()
        });
    }
}

/// Returns the schema at a path, with dots between steps and `[]` for list items.
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

/// Replaces the line breaks of a doc comment with spaces.
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
            ("VirtualMachine" | "VirtualMachineService", 0) => 2,
            (_, 0) => 1,
            (_, some) => some,
        };
        assert_eq!(written, rules::all().iter().map(versions).sum::<usize>());
    }

    #[test]
    fn every_text_list_and_map_that_a_tenant_writes_has_a_limit() {
        fn unlimited(schema: &serde_json::Value, path: &str, found: &mut Vec<String>) {
            let serde_json::Value::Object(parts) = schema else { return };
            let lacks = |limits: &[&str]| limits.iter().all(|limit| !parts.contains_key(*limit));
            let text = parts.get("type").is_some_and(|word| word == "string")
                || parts.contains_key("x-kubernetes-int-or-string");
            let list = parts.contains_key("items") && lacks(&["maxItems"]);
            let map = parts.contains_key("additionalProperties") && lacks(&["maxProperties"]);
            let open = parts.contains_key("x-kubernetes-preserve-unknown-fields");
            if (text && lacks(&["maxLength", "enum", "format"])) || list || map || open {
                found.push(path.to_owned());
            }
            for (name, part) in parts {
                match (name.as_str(), part) {
                    ("properties", serde_json::Value::Object(fields)) => {
                        fields
                            .iter()
                            .for_each(|(name, field)| unlimited(field, &format!("{path}.{name}"), found));
                    }
                    ("items" | "additionalProperties", part) => unlimited(part, &format!("{path}[]"), found),
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        for crd in all().iter().filter(|crd| crd.spec.scope == "Namespaced") {
            for version in &crd.spec.versions {
                let schema = serde_json::to_value(version).unwrap();
                let spec = &schema["schema"]["openAPIV3Schema"]["properties"]["spec"];
                unlimited(spec, &format!("{} {}", crd.spec.names.kind, version.name), &mut found);
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    /// kube can't take the description of a kind from a doc comment, so the attribute `doc` repeats it.
    #[test]
    fn a_kind_is_described_as_its_spec() {
        for crd in all() {
            for version in &crd.spec.versions {
                let schema =
                    version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()).unwrap();
                let spec = schema.properties.as_ref().and_then(|properties| properties.get("spec"));
                if let Some(spec) = spec {
                    assert_eq!(
                        schema.description, spec.description,
                        "{} {}",
                        crd.spec.names.kind, version.name
                    );
                }
            }
        }
    }

    #[test]
    fn no_default_reaches_the_api_server() {
        for crd in all() {
            // An OVF property in an image has a field with this name.
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
