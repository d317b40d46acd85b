//! Kubernetes manifests as they come, and as they must be where no cluster runs the programs.
//!
//! In a cluster, kubelet runs the Deployments, Services lead the API server to webhooks, and cert-manager makes
//! their certificates. Here the plane does all three, so that a manifest's rights, arguments and webhooks are used
//! as they are while those kinds are left out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// The kind of definitions.
pub const DEFINITION: &str = "CustomResourceDefinition";

/// Reads a stream of YAML documents; empty ones are dropped.
pub fn parse(what: &str, yaml: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple::<Value>(yaml)
        .map_err(|error| Error::manifest(what, error.to_string()))
        .map(|documents| documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Reads what `kubectl kustomize` renders of a Cluster API provider.
///
/// Variables get their defaults, as clusterctl would give them, and schemas lose their prose: it is two thirds of
/// the definitions, and the API server keeps several copies of each in memory.
pub fn from_upstream(what: &str, yaml: &str) -> Result<Vec<Value>> {
    let mut documents = parse(what, &with_defaults(yaml))?;
    for document in &mut documents {
        if document["kind"] == DEFINITION {
            without_prose(document);
        }
    }
    Ok(documents)
}

/// Replaces every `${NAME:=default}` (also with `:-`) by its default.
pub fn with_defaults(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, variable) = rest.split_at(start);
        out.push_str(before);
        let parsed = variable.find('}').and_then(|end| {
            let inner = &variable[2..end];
            let (_, default) = inner.split_once(":=").or_else(|| inner.split_once(":-"))?;
            Some((default, &variable[end + 1..]))
        });
        let (text, after) = parsed.unwrap_or(("${", &variable[2..]));
        out.push_str(text);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn without_prose(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            drop_descriptions(schema);
        }
    }
}

/// Drops a schema's description and its parts'; a property that is called `description` stays.
fn drop_descriptions(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.remove("description");
    for (name, member) in members {
        match (name.as_str(), member) {
            ("properties" | "patternProperties" | "definitions", Value::Object(parts)) => {
                parts.values_mut().for_each(drop_descriptions);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                parts.iter_mut().for_each(drop_descriptions);
            }
            ("items" | "additionalProperties" | "not", part) => drop_descriptions(part),
            _ => {}
        }
    }
}

/// Where an API server on this machine reaches a webhook server.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The authority of its certificate, in base64 of PEM.
    pub ca_bundle: String,
    /// The last segment of the paths of conversions, by which the server recognizes the API server.
    pub conversion_key: Option<String>,
}

impl Endpoint {
    /// The documents, with what leads to a Service leading here.
    pub fn reached(&self, documents: &[Value]) -> Vec<Value> {
        let mut documents = documents.to_vec();
        for document in &mut documents {
            self.reach(document);
        }
        documents
    }

    /// Rewrites every client configuration in a webhook configuration or a definition that leads to a Service.
    pub fn reach(&self, document: &mut Value) {
        for webhook in document.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
            self.rewrite(webhook.get_mut("clientConfig"), None);
        }
        let key = self.conversion_key.as_deref();
        self.rewrite(document.pointer_mut("/spec/conversion/webhook/clientConfig"), key);
    }

    fn rewrite(&self, config: Option<&mut Value>, key: Option<&str>) {
        if let Some(config) = config
            && let Some(service) = config.get("service")
        {
            let path = service["path"].as_str().unwrap_or("/").trim_start_matches('/');
            let path = key.map_or_else(|| path.to_owned(), |key| format!("{path}/{key}"));
            *config = json!({
                "url": format!("https://127.0.0.1:{}/{path}", self.port),
                "caBundle": self.ca_bundle,
            });
        }
    }
}

/// The namespace of the Service that converts a definition's objects, if one does.
pub fn converting_namespace(definition: &Value) -> Option<&str> {
    definition.pointer("/spec/conversion/webhook/clientConfig/service/namespace")?.as_str()
}

/// One program's manifests, sorted by what is done with them.
#[derive(Debug, Clone, Default)]
pub struct Manifests {
    /// Namespaces, which everything else lies in.
    pub namespaces: Vec<Value>,
    /// Custom resource definitions.
    pub definitions: Vec<Value>,
    /// Rights, accounts and whatever else is applied as it is.
    pub objects: Vec<Value>,
    /// Webhook configurations, for when the program listens.
    pub webhooks: Vec<Value>,
    /// The Deployment, which the plane runs itself.
    pub deployment: Option<Deployment>,
}

/// Kinds that only make sense where kubelet and cert-manager run, by group.
const LEFT_OUT: [(&str, &[&str]); 5] = [
    ("v1", &["Service"]),
    ("cert-manager.io", &["Certificate", "Issuer", "ClusterIssuer"]),
    ("kustomize.config.k8s.io", &["Kustomization", "Component"]),
    ("policy", &["PodDisruptionBudget"]),
    ("networking.k8s.io", &["NetworkPolicy"]),
];

impl Manifests {
    /// Sorts documents.
    pub fn sorted(what: &str, documents: impl IntoIterator<Item = Value>) -> Result<Self> {
        let mut manifests = Self::default();
        for document in documents {
            let text = |member: &str| document[member].as_str().unwrap_or_default();
            let group = text("apiVersion").split('/').next().unwrap_or_default();
            match text("kind") {
                "" => return Err(Error::manifest(what, "a document without kind")),
                kind if LEFT_OUT.iter().any(|(out, kinds)| *out == group && kinds.contains(&kind)) => {}
                "Namespace" => manifests.namespaces.push(document),
                "CustomResourceDefinition" => manifests.definitions.push(document),
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                    manifests.webhooks.push(document);
                }
                "Deployment" => manifests.deployment = Some(Deployment::read(what, &document)?),
                _ => manifests.objects.push(document),
            }
        }
        Ok(manifests)
    }
}

/// What of a Deployment matters to a process on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The ServiceAccount that its Pod has.
    pub service_account: String,
    /// The container's arguments.
    pub args: Vec<String>,
    /// The container's plain environment variables, without those that refer to others.
    pub env: BTreeMap<String, String>,
    /// Whether the container serves webhooks: it has a port of that name.
    pub serves_webhooks: bool,
}

impl Deployment {
    fn read(what: &str, document: &Value) -> Result<Self> {
        let pod = &document["spec"]["template"]["spec"];
        let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let container = containers
            .iter()
            .find(|container| container["name"] == "manager")
            .or_else(|| containers.first())
            .ok_or_else(|| Error::manifest(what, "the Deployment has no container"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        Ok(Self {
            name: text(&document["metadata"]["name"]),
            namespace: text(&document["metadata"]["namespace"]),
            service_account: pod["serviceAccountName"].as_str().unwrap_or("default").to_owned(),
            args: list(&container["args"]).iter().map(text).collect(),
            env: list(&container["env"])
                .iter()
                .filter_map(|variable| {
                    let value = variable["value"].as_str().filter(|value| !value.contains("$("))?;
                    Some((text(&variable["name"]), value.to_owned()))
                })
                .collect(),
            serves_webhooks: list(&container["ports"])
                .iter()
                .any(|port| port["name"].as_str().is_some_and(|name| name.contains("webhook"))),
        })
    }
}

#[cfg(test)]
mod tests;
