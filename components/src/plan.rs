//! What an installation applies, in order.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::catalogue::{COMPONENTS, Component, INVENTORY, Source};
use crate::certificate::ServingPair;
use crate::error::{Error, Result};
use crate::render::{self, Certificates, Options};
use crate::{config, manifest};

/// The manifests of Cluster API and other upstream projects, by name.
pub type Upstream = BTreeMap<String, Vec<Value>>;

/// A complete installation.
#[derive(Debug)]
pub struct Installation {
    /// Namespaces and definitions, which everything else needs.
    pub base: Vec<Value>,
    /// The components, in order.
    pub parts: Vec<Part>,
}

/// What a component is installed with.
#[derive(Debug)]
pub struct Part {
    /// The component.
    pub component: &'static Component,
    /// Rights, Services, Secrets and whatever else its program needs before it starts.
    pub objects: Vec<Value>,
    /// Objects that are created if they do not exist, and belong to the administrator from then on.
    pub defaults: Vec<Value>,
    /// Its Deployment.
    pub deployment: Value,
    /// What has the API server call the program, and what says that it is installed.
    pub after: Vec<Value>,
}

/// The certificates that an installation needs: for each component, the Secret and the names for which the certificate is valid.
#[derive(Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    /// The component.
    pub component: &'static str,
    /// Its namespace.
    pub namespace: &'static str,
    /// The Secret with the certificate.
    pub secret: String,
    /// The names.
    pub dns_names: Vec<String>,
}

/// The certificates that programs cannot make themselves.
pub fn wanted_certificates(upstream: &Upstream, options: &Options) -> Result<Vec<WantedCertificate>> {
    if options.certificates == Certificates::CertManager {
        return Ok(Vec::new());
    }
    let mut wanted = Vec::new();
    for component in COMPONENTS.iter().filter(|component| component.provider().is_some()) {
        let documents = manifests(component, upstream)?;
        let dns_names = render::dns_names(&documents);
        if let (Some(secret), false) = (render::secret_name(&documents), dns_names.is_empty()) {
            let Component { name, namespace, .. } = *component;
            wanted.push(WantedCertificate { component: name, namespace, secret, dns_names });
        }
    }
    Ok(wanted)
}

/// What is applied for these options. `pairs` has a certificate for each component of [`wanted_certificates`].
pub fn installation(
    upstream: &Upstream,
    options: &Options,
    pairs: &BTreeMap<&str, ServingPair>,
) -> Result<Installation> {
    let mut base = Vec::new();
    let mut parts = Vec::with_capacity(COMPONENTS.len());
    for component in &COMPONENTS {
        let documents = manifests(component, upstream)?;
        let documents = render::documents(component, &documents, options, pairs.get(component.name));
        parts.push(part(component, documents, &mut base)?);
    }
    // Definitions of kinds that components of ours share.
    let ours = COMPONENTS.last().map(|component| {
        let definitions = config::definitions()?;
        Ok::<_, Error>(render::documents(component, &definitions, options, None))
    });
    base.extend(ours.transpose()?.into_iter().flatten());
    base.extend(upstream.get(INVENTORY).into_iter().flatten().cloned());
    base.sort_by_key(|document| document["kind"] != "Namespace");
    Ok(Installation { base, parts })
}

fn part(component: &'static Component, documents: Vec<Value>, base: &mut Vec<Value>) -> Result<Part> {
    let (mut objects, mut defaults, mut after, mut deployment) = (Vec::new(), Vec::new(), Vec::new(), None);
    for document in documents {
        match document["kind"].as_str().unwrap_or_default() {
            "Namespace" | "CustomResourceDefinition" => base.push(document),
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => after.push(document),
            "VirtualMachineClass" => defaults.push(document),
            "Deployment" => deployment = Some(document),
            _ => objects.push(document),
        }
    }
    after.extend(render::inventory_entry(component));
    let deployment = deployment.ok_or_else(|| Error::Manifest {
        what: component.name.to_owned(),
        reason: "there is no Deployment".to_owned(),
    })?;
    Ok(Part { component, objects, defaults, deployment, after })
}

/// The manifests of a component, as they come.
fn manifests(component: &Component, upstream: &Upstream) -> Result<Vec<Value>> {
    match &component.source {
        Source::Config(folder) => config::documents(folder),
        Source::Upstream { manifests, .. } => {
            upstream.get(*manifests).cloned().ok_or_else(|| Error::Manifest {
                what: (*manifests).to_owned(),
                reason: "there are no manifests of this name".to_owned(),
            })
        }
    }
}

impl Installation {
    /// All documents in the order in which they are applied.
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        let parts = self.parts.iter().flat_map(|part| {
            part.objects.iter().chain(&part.defaults).chain([&part.deployment]).chain(&part.after)
        });
        self.base.iter().chain(parts)
    }

    /// The definitions, which must be served before objects of their kinds are applied.
    pub fn definitions(&self) -> impl Iterator<Item = &Value> {
        self.base.iter().filter(|document| document["kind"] == manifest::DEFINITION)
    }
}

#[cfg(test)]
mod tests;
