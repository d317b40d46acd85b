//! Parses Kubernetes manifests, and adapts them to a plane without nodes.
//!
//! In a cluster, the kubelet runs the Deployments, Services route the API server to webhooks, and cert-manager issues
//! the webhooks' certificates. The plane does all three itself. It uses a manifest's rights, arguments and webhooks
//! unchanged, and leaves out the kinds that only work in a cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Error, Result};

pub const DEFINITION: &str = "CustomResourceDefinition";

/// Parses a stream of YAML documents. Drops empty documents. `what` names the file in errors.
pub fn parse(what: &str, yaml: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple::<Value>(yaml)
        .map_err(|error| Error::manifest(what, error.to_string()))
        .map(|documents| documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// The address and key by which an API server on this machine calls a webhook server.
#[derive(Debug, Clone)]
pub struct WebhookEndpoint {
    /// The port on 127.0.0.1.
    pub port: u16,
    /// The CA that signed the server's certificate, as PEM in base64.
    pub ca_bundle: String,
    /// The last segment of conversion paths, by which the server recognizes the API server. `None` if it accepts every client.
    pub conversion_key: Option<String>,
}

impl WebhookEndpoint {
    /// Returns copies of the documents in which webhooks refer to this endpoint instead of a Service.
    pub fn reached(&self, documents: &[Value]) -> Vec<Value> {
        let mut documents = documents.to_vec();
        for document in &mut documents {
            self.reach(document);
        }
        documents
    }

    /// Replaces the Service with this endpoint in every client configuration of a webhook configuration or CRD.
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

/// Returns the namespace of the Service that converts a CRD's objects, or `None` if the CRD doesn't have a conversion
/// webhook.
pub fn converting_namespace(definition: &Value) -> Option<&str> {
    definition.pointer("/spec/conversion/webhook/clientConfig/service/namespace")?.as_str()
}

/// A program's manifests, grouped by use.
#[derive(Debug, Clone, Default)]
pub struct Manifests {
    /// Namespaces, which all other objects need.
    pub namespaces: Vec<Value>,
    pub definitions: Vec<Value>,
    /// Rights, accounts and other objects that are applied unchanged.
    pub objects: Vec<Value>,
    /// Webhook configurations, which are applied when the program listens.
    pub webhooks: Vec<Value>,
    /// The Deployment, which the plane runs itself.
    pub deployment: Option<ProgramDeployment>,
}

/// Kinds that only make sense with a kubelet or cert-manager, by group.
const LEFT_OUT: [(&str, &[&str]); 5] = [
    ("v1", &["Service"]),
    ("cert-manager.io", &["Certificate", "Issuer", "ClusterIssuer"]),
    ("kustomize.config.k8s.io", &["Kustomization", "Component"]),
    ("policy", &["PodDisruptionBudget"]),
    ("networking.k8s.io", &["NetworkPolicy"]),
];

impl Manifests {
    /// Groups documents by use. Drops the kinds that only make sense with a kubelet or cert-manager. `what` names the
    /// documents in errors.
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
                "Deployment" => manifests.deployment = Some(ProgramDeployment::read(what, &document)?),
                _ => manifests.objects.push(document),
            }
        }
        Ok(manifests)
    }
}

/// The parts of a Deployment that matter to a process on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramDeployment {
    pub name: String,
    pub namespace: String,
    /// The Pod's ServiceAccount.
    pub service_account: String,
    pub args: Vec<String>,
    /// The container's environment variables that have a plain value, without references to other variables.
    pub env: BTreeMap<String, String>,
    /// True if the container serves webhooks: one of its port names contains `webhook`.
    pub serves_webhooks: bool,
}

impl ProgramDeployment {
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
