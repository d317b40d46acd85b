//! Reads manifests, and finds the objects that their clusters require.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::files::read_text_or_input;

/// A manifest's text and its name in messages.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    pub name: String,
    pub text: String,
}

impl ManifestFile {
    /// Reads a file, or standard input if its name is `-`.
    fn read(path: &Path) -> Result<Self> {
        let name = if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
        let text = read_text_or_input(path).with_context(|| format!("cannot read {name}"))?;
        Ok(Self { name: name.into_owned(), text })
    }

    fn documents(&self) -> Result<Vec<Value>> {
        documents(&self.text).with_context(|| format!("{} is not a Kubernetes manifest", self.name))
    }
}

/// Reads manifests in order. In a folder, reads the files that end in .yaml, .yml or .json, sorted by name.
///
/// # Errors
/// Returns an error if a file can't be read, or a folder doesn't contain a manifest.
pub fn read_files(paths: &[PathBuf]) -> Result<Vec<ManifestFile>> {
    expand(paths)?.iter().map(|path| ManifestFile::read(path)).collect()
}

/// Returns the documents in several manifests, in order.
///
/// # Errors
/// Returns an error if a file isn't a manifest.
pub fn documents_of(files: &[ManifestFile]) -> Result<Vec<Value>> {
    Ok(files.iter().map(ManifestFile::documents).collect::<Result<Vec<_>>>()?.concat())
}

/// Replaces each folder in `paths` by the manifests in it.
///
/// # Errors
/// Returns an error if a folder can't be read or doesn't contain a manifest.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let expanded = paths.iter().map(|path| if path.is_dir() { files(path) } else { Ok(vec![path.clone()]) });
    Ok(expanded.collect::<Result<Vec<_>>>()?.concat())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot_read = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot_read)? {
        let file = entry.with_context(cannot_read)?.path();
        let ends = file.extension().and_then(|end| end.to_str());
        if ends.is_some_and(|end| ["yaml", "yml", "json"].contains(&end)) && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        bail!("folder {} has no manifest: no file ends in .yaml, .yml or .json", folder.display());
    }
    files.sort();
    Ok(files)
}

/// Returns the documents in the manifest at `path` (`-` for standard input), in order.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    ManifestFile::read(path)?.documents()
}

/// The remedy for a configuration file that is passed as a manifest.
pub const CONVERT: &str =
    "Convert it with `layercake convert FILE`. With --apply, this command also applies the result";

/// Returns true if a document with these keys is a cluster configuration file of Tanzu Kubernetes Grid: a mapping of
/// variables such as `CLUSTER_NAME`.
pub fn is_configuration<'a>(mut keys: impl Iterator<Item = &'a str>) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    keys.any(|key| {
        key.len() > 1 && key.starts_with(|first: char| first.is_ascii_uppercase()) && key.bytes().all(fits)
    })
}

/// Parses the documents in a YAML string and skips empty documents. Fails if a document has no `apiVersion` or `kind`.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let mut documents = Vec::new();
    for document in serde_saphyr::from_multiple::<Value>(text)? {
        if document.is_null() {
            continue;
        }
        if document["apiVersion"].as_str().is_none() || document["kind"].as_str().is_none() {
            if document.as_object().is_some_and(|fields| is_configuration(fields.keys().map(String::as_str)))
            {
                bail!("it is a cluster configuration file of Tanzu Kubernetes Grid. {CONVERT}");
            }
            bail!("a document has no apiVersion or kind");
        }
        documents.push(document);
    }
    Ok(documents)
}

/// Returns true if the document is a TanzuKubernetesCluster, in any API version.
pub fn is_cluster(document: &Value) -> bool {
    document["kind"] == "TanzuKubernetesCluster"
        && document["apiVersion"].as_str().is_some_and(|version| version.starts_with("run.tanzu.vmware.com/"))
}

/// The objects that a vSphere administrator must set up for a namespace before its clusters are applied.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamespaceRequirements {
    /// Storage classes to assign to the namespace.
    pub storage_classes: BTreeSet<String>,
    /// VM classes to bind to the namespace.
    pub vm_classes: BTreeSet<String>,
}

/// Returns the objects that the clusters in `documents` require, by namespace.
pub fn needs(documents: &[Value]) -> BTreeMap<String, NamespaceRequirements> {
    let mut needs: BTreeMap<String, NamespaceRequirements> = BTreeMap::new();
    for cluster in documents.iter().filter(|document| is_cluster(document)) {
        let of_namespace = needs.entry(crate::kube::apply::key(cluster).0).or_default();
        let (topology, storage) = (&cluster["spec"]["topology"], &cluster["spec"]["settings"]["storage"]);
        let groups = [&topology["controlPlane"], &topology["workers"]];
        for group in groups.into_iter().chain(items(&topology["nodePools"])) {
            of_namespace.vm_classes.extend(named([&group["class"], &group["vmClass"]]));
            let volumes = items(&group["volumes"]).map(|volume| &volume["storageClass"]);
            of_namespace.storage_classes.extend(named(volumes.chain([&group["storageClass"]])));
        }
        of_namespace
            .storage_classes
            .extend(named(items(&storage["classes"]).chain([&storage["defaultClass"]])));
    }
    needs
}

/// Returns the items of a list. For any other value, returns an empty iterator, because the manifest isn't validated
/// yet.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the non-empty strings in `values`.
fn named<'a>(values: impl IntoIterator<Item = &'a Value>) -> impl Iterator<Item = String> {
    let texts = values.into_iter().filter_map(Value::as_str);
    texts.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Formats the objects as YAML documents.
///
/// # Errors
/// Returns an error if an object can't be serialized.
pub fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    let texts = objects.iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.iter().map(|text| text.trim_end()).collect::<Vec<_>>().join("\n---\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_found_in_every_version() {
        let text = "
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {name: a, namespace: one}
spec:
  topology:
    controlPlane: {count: 1, class: best-effort-small, storageClass: gold}
    workers: {count: 1, class: guaranteed-small, storageClass: silver}\t# a tab before this comment
  settings: {storage: {classes: [bronze]}}
---
---
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: b}
spec:
  topology:
    controlPlane: {replicas: 1, vmClass: big, storageClass: gold}
    nodePools:
    - {name: p, vmClass: bigger, storageClass: gold, volumes: [{name: v, storageClass: tin}]}
";
        let needs = needs(&documents(text).unwrap());
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(needs["one"].storage_classes, set(&["bronze", "gold", "silver"]));
        assert_eq!(needs["one"].vm_classes, set(&["best-effort-small", "guaranteed-small"]));
        assert_eq!(needs["default"].storage_classes, set(&["gold", "tin"]));
        assert_eq!(needs["default"].vm_classes, set(&["big", "bigger"]));
    }

    #[test]
    fn a_folder_has_its_manifests_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let read = || documents_of(&read_files(&[folder.path().to_owned()])?);
        assert!(format!("{:#}", read().unwrap_err()).contains("has no manifest"));
        for (file, name) in
            [("b.yml", "second"), ("a.yaml", "first"), ("c.json", "third"), ("notes.txt", "no")]
        {
            let text =
                format!(r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#);
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        let names: Vec<_> = read().unwrap().iter().map(|found| found["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["first", "second", "third"]);
    }

    #[test]
    fn a_document_without_a_kind_is_refused() {
        for (text, words) in [
            ("metadata: {name: a}", "a document has no apiVersion or kind"),
            ("apiVersion: v1\nCLUSTER_NAME: a", "`layercake convert FILE`"),
            ("CLUSTER_NAME: a\nVSPHERE_PASSWORD: <encoded:YQ==>", "`layercake convert FILE`"),
            ("A: a", "a document has no apiVersion or kind"),
            ("[CLUSTER_NAME]", "a document has no apiVersion or kind"),
        ] {
            let error = documents(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
