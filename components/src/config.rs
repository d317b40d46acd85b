//! The embedded folder config/: Layercake's CRDs, each program's rights, arguments and webhooks, and Cluster API's
//! manifests. `layercake init` applies these files to a cluster, and the embedded plane runs the programs with exactly
//! the same files.

use include_dir::{Dir, include_dir};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::manifest::{Manifests, parse};

static CONFIG: Dir = include_dir!("$CARGO_MANIFEST_DIR/../config");

/// Returns the CRDs for Layercake's kinds.
pub fn definitions() -> Result<Vec<Value>> {
    definitions_in("crd")
}

/// Returns the CRDs of the kinds that Layercake's programs read but other providers define. In a cluster, those
/// providers install the CRDs.
pub fn external_definitions() -> Result<Vec<Value>> {
    definitions_in("crd-external")
}

fn definitions_in(name: &str) -> Result<Vec<Value>> {
    match CONFIG.get_dir(name) {
        Some(folder) => Ok(Manifests::sorted(&format!("config/{name}"), documents_in(folder)?)?.definitions),
        None => Ok(Vec::new()),
    }
}

/// Returns the manifests of one of Layercake's programs.
pub fn manifests(program: &str) -> Result<Manifests> {
    Manifests::sorted(&format!("config/{program}"), documents(program)?)
}

/// Returns the manifests of an upstream component, or the CRD of clusterctl's inventory, as `hack/generate` has rendered
/// them.
pub fn upstream(name: &str) -> Result<Vec<Value>> {
    documents(&format!("upstream/{name}"))
}

/// Returns the documents in a folder of config/, without the changes that kustomize would make.
pub fn documents(folder: &str) -> Result<Vec<Value>> {
    let missing = || Error::manifest(format!("config/{folder}"), "the folder does not exist");
    documents_in(CONFIG.get_dir(folder).ok_or_else(missing)?)
}

/// Returns the documents in the files that the folder's kustomization lists as resources, or in all YAML files if there is
/// no such list.
fn documents_in(folder: &Dir<'static>) -> Result<Vec<Value>> {
    let name =
        |file: &include_dir::File| file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut files: Vec<_> = folder
        .files()
        .filter(|file| file.path().extension().is_some_and(|suffix| suffix == "yaml"))
        .collect();
    files.sort_by_key(|file| file.path());
    let kustomization = match files.iter().find(|file| name(file) == "kustomization.yaml") {
        Some(file) => parse("kustomization.yaml", file.contents_utf8().unwrap_or_default())?,
        None => Vec::new(),
    };
    let listed = kustomization.first().and_then(|document| document["resources"].as_array());
    let mut documents = Vec::new();
    for file in files.iter().filter(|file| name(file) != "kustomization.yaml") {
        if listed.is_none_or(|listed| listed.iter().any(|resource| *resource == *name(file))) {
            let what = file.path().display().to_string();
            documents.extend(parse(&what, file.contents_utf8().unwrap_or_default())?);
        }
    }
    Ok(documents)
}
