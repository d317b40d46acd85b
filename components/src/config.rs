//! What config/ holds for a cluster's administrator, embedded: the definitions of our kinds, and each program's
//! rights, arguments and webhooks. The embedded plane runs the programs with exactly these.

use include_dir::{Dir, include_dir};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::manifest::{Manifests, parse};

static CONFIG: Dir = include_dir!("$CARGO_MANIFEST_DIR/../config");

/// The definitions of our kinds.
pub fn definitions() -> Result<Vec<Value>> {
    definitions_in("crd")
}

/// The definitions of others' kinds that our programs read: their providers bring them, where there are any.
pub fn external_definitions() -> Result<Vec<Value>> {
    definitions_in("crd-external")
}

fn definitions_in(name: &str) -> Result<Vec<Value>> {
    match CONFIG.get_dir(name) {
        Some(folder) => Ok(Manifests::sorted(&format!("config/{name}"), documents_in(folder)?)?.definitions),
        None => Ok(Vec::new()),
    }
}

/// The manifests of one of our programs.
pub fn manifests(program: &str) -> Result<Manifests> {
    Manifests::sorted(&format!("config/{program}"), documents(program)?)
}

/// The documents of a folder, as kustomize would read them before it changes them.
pub fn documents(folder: &str) -> Result<Vec<Value>> {
    let missing = || Error::manifest(format!("config/{folder}"), "the folder does not exist");
    documents_in(CONFIG.get_dir(folder).ok_or_else(missing)?)
}

/// The documents of the resources that the folder's kustomization lists, else of all its files.
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
