//! The objects that an installation applies, in order.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::catalogue::{COMPONENTS, Component, INVENTORY, ManifestSource};
use crate::certificate::ServingPair;
use crate::error::{Error, Result};
use crate::render::{self, Certificates, Options};
use crate::{config, manifest};

/// A complete installation. It contains private keys, so it doesn't implement `Debug`.
pub struct InstallationObjects {
    /// Namespaces and CRDs, which all other objects need.
    pub base: Vec<Value>,
    /// The components, in installation order.
    pub parts: Vec<ComponentObjects>,
}

/// A component's objects.
pub struct ComponentObjects {
    pub component: &'static Component,
    /// The objects that the program needs before it starts, such as rights, Services and Secrets.
    pub objects: Vec<Value>,
    /// Objects that are created if they don't exist, and belong to the administrator from then on.
    pub defaults: Vec<Value>,
    pub deployment: Value,
    /// Objects that are applied when the program is available: its webhooks, and its entry in clusterctl's inventory.
    pub after: Vec<Value>,
}

/// A certificate that an installation needs.
#[derive(Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    pub component: &'static str,
    pub namespace: &'static str,
    /// The name of the Secret for the certificate.
    pub secret: String,
    /// The names for which the certificate is valid.
    pub dns_names: Vec<String>,
}

/// Returns the certificates that these components' programs need and can't create themselves. Empty if cert-manager
/// creates them.
pub fn wanted_certificates(
    options: &Options,
    components: &[&'static Component],
) -> Result<Vec<WantedCertificate>> {
    if options.certificates == Certificates::CertManager {
        return Ok(Vec::new());
    }
    let mut wanted = Vec::new();
    for component in components.iter().filter(|component| component.is_upstream()) {
        let documents = manifests(component)?;
        let dns_names = render::dns_names(&documents);
        if let (Some(secret), false) = (render::secret_name(&documents), dns_names.is_empty()) {
            let Component { name, namespace, .. } = **component;
            wanted.push(WantedCertificate { component: name, namespace, secret, dns_names });
        }
    }
    Ok(wanted)
}

/// Returns the objects of these components. `pairs` contains the certificates for [`wanted_certificates`], by component name.
pub fn installation(
    options: &Options,
    components: &[&'static Component],
    pairs: &BTreeMap<&str, ServingPair>,
) -> Result<InstallationObjects> {
    let mut base = Vec::new();
    let mut parts = Vec::with_capacity(components.len());
    for &component in components {
        let documents = manifests(component)?;
        let documents = render::documents(component, &documents, options, pairs.get(component.name));
        parts.push(part(component, documents, &mut base)?);
    }
    base.extend(render::definitions(&config::definitions()?, options.certificates));
    let inventory = config::upstream(INVENTORY)?;
    // An installation with Cluster API's core owns the inventory. Otherwise, another tool may own the inventory, so it is only
    // created if it doesn't exist.
    match parts.iter_mut().find(|part| part.component.is_upstream()) {
        Some(core) if core.component.name == COMPONENTS[0].name => base.extend(inventory),
        Some(other) => other.defaults.extend(inventory),
        None => {}
    }
    base.sort_by_key(|document| document["kind"] != "Namespace");
    Ok(InstallationObjects { base, parts })
}

fn part(
    component: &'static Component,
    documents: Vec<Value>,
    base: &mut Vec<Value>,
) -> Result<ComponentObjects> {
    let (mut objects, mut defaults, mut after, mut deployment) = (Vec::new(), Vec::new(), Vec::new(), None);
    for document in documents {
        match document["kind"].as_str().unwrap_or_default() {
            "Namespace" | manifest::DEFINITION => base.push(document),
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => after.push(document),
            "VirtualMachineClass" => defaults.push(document),
            "Deployment" => deployment = Some(document),
            _ => objects.push(document),
        }
    }
    after.extend(render::inventory_entry(component));
    let deployment = deployment.ok_or_else(|| Error::manifest(component.name, "there is no Deployment"))?;
    Ok(ComponentObjects { component, objects, defaults, deployment, after })
}

/// Returns a component's manifests, unchanged.
fn manifests(component: &Component) -> Result<Vec<Value>> {
    match &component.source {
        ManifestSource::Config(folder) => config::documents(folder),
        ManifestSource::Upstream { manifests, .. } => config::upstream(manifests),
    }
}

impl ComponentObjects {
    /// Returns the component's documents in the order in which they are applied.
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().chain(&self.defaults).chain([&self.deployment]).chain(&self.after)
    }
}

impl InstallationObjects {
    /// Returns all documents in the order in which they are applied.
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        self.base.iter().chain(self.parts.iter().flat_map(ComponentObjects::documents))
    }

    /// Returns the CRDs, which must be served before objects of their kinds are applied.
    pub fn definitions(&self) -> impl Iterator<Item = &Value> {
        self.base.iter().filter(|document| document["kind"] == manifest::DEFINITION)
    }
}

#[cfg(test)]
mod tests;
