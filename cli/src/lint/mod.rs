//! `layercake lint`: checks manifests before you apply them.
//!
//! Without strict field validation, an API server silently drops an unknown field, and the cluster lacks the setting.
//! `lint` reports each unknown field, with the path where it belongs.

mod class;
mod cluster;
mod configuration;
pub mod finding;
mod plain;
mod schema;
mod tree;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gcm::admission::places::{self, FieldPlaces};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::files::read_text_or_input;
use crate::kube::manifest::{self, ManifestFile};
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::write_out;
use finding::{Finding, FindingSeverity, LintReport};
use tree::{YamlNode, YamlValue};

/// Checks the manifests in a YAML string. `file` is the file's name in the report.
pub fn lint(text: &str, file: &str) -> LintReport {
    static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(api::crds::all);
    let mut report = LintReport { file: file.to_owned(), ..LintReport::default() };
    match tree::documents(text) {
        Ok(documents) => {
            for document in documents.iter().filter(|document| !document.is_null()) {
                check_object(document, &CRDS, &mut report);
            }
            if report.checked == 0 && report.findings.is_empty() {
                let reason = "it contains no object that can be checked";
                report.findings.push(Finding::note(1, "", reason));
            }
        }
        Err(error) => {
            let remedy = "Correct its indentation, quotes and brackets";
            report.findings.push(Finding::error(
                error.line,
                "",
                format!("this is not YAML: {}", error.reason),
                remedy,
            ));
        }
    }
    report.findings.sort_by_key(|finding| (finding.line, finding.severity));
    report
}

fn check_object(document: &YamlNode, crds: &[CustomResourceDefinition], report: &mut LintReport) {
    let YamlValue::Map(entries) = &document.kind else {
        let finding = Finding::error(
            document.line,
            "",
            "this is not an object",
            "Write apiVersion, kind, metadata and spec",
        );
        return report.findings.push(finding);
    };
    let text = |key: &str| document.get(key).and_then(YamlNode::text);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        if manifest::is_configuration(entries.iter().map(|entry| entry.key.as_str())) {
            let reason = "this is a cluster configuration file of Tanzu Kubernetes Grid, not a manifest";
            return report.findings.push(Finding::error(document.line, "", reason, manifest::CONVERT));
        }
        let missing = if text("apiVersion").is_none() { "apiVersion" } else { "kind" };
        let remedy = "Every object begins with apiVersion and kind";
        return report.findings.push(Finding::error(document.line, missing, "it is missing", remedy));
    };
    if kind == "List" {
        if let Some(YamlValue::List(items)) = document.get("items").map(|items| &items.kind) {
            for item in items {
                check_object(item, crds, report);
            }
        }
        return;
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if (group, kind) == (plain::GROUP, "Cluster") {
        report.checked += 1;
        report.findings.extend(plain::check_cluster(document, version));
        return;
    }
    let Some(crd) = crds.iter().find(|crd| crd.spec.names.kind == kind) else {
        if let Some(finding) = unknown_kind(document, group, kind, crds) {
            report.findings.push(finding);
        }
        return;
    };
    if let Some(finding) = wrong_version(document, group, version, crd) {
        return report.findings.push(finding);
    }
    let served = crd.spec.versions.iter().find(|served| served.name == version);
    let Some(schema) = served.and_then(|served| served.schema.as_ref()?.open_api_v3_schema.as_ref()) else {
        return;
    };
    report.checked += 1;
    let mut findings = schema::check_schema(document, schema, &FieldPlaces::of(crd, version));
    let more = match kind {
        "TanzuKubernetesCluster" => cluster::check_cluster(document, version),
        "VirtualMachineClass" if findings.is_empty() => class::check_class(document),
        "TkgServiceConfiguration" => configuration::check_configuration(document),
        _ => Vec::new(),
    };
    // If the schema check has findings, only keep findings about other existing fields. A misplaced field isn't also
    // reported as missing.
    let is_reported = |field: &str| findings.iter().any(|finding| finding.field == field);
    let more: Vec<_> = more
        .into_iter()
        .filter(|finding| {
            findings.is_empty() || (document.find(&finding.field).1 && !is_reported(&finding.field))
        })
        .collect();
    findings.extend(more);
    report.findings.extend(findings);
}

fn versions(crd: &CustomResourceDefinition) -> String {
    let names: Vec<&str> = crd.spec.versions.iter().map(|version| version.name.as_str()).collect();
    names.join(", ")
}

fn wrong_version(
    document: &YamlNode,
    group: &str,
    version: &str,
    crd: &CustomResourceDefinition,
) -> Option<Finding> {
    let right = group == crd.spec.group && crd.spec.versions.iter().any(|served| served.name == version);
    let kind = &crd.spec.names.kind;
    let remedy = format!("Use {}/ with one of: {}", crd.spec.group, versions(crd));
    (!right).then(|| {
        Finding::error(
            document.find("apiVersion").0,
            "apiVersion",
            format!("{kind} does not have this version"),
            remedy,
        )
    })
}

/// Reports a kind that doesn't exist in Layercake's API groups. Returns `None` for kinds in other groups, which aren't
/// checked.
fn unknown_kind(
    document: &YamlNode,
    group: &str,
    kind: &str,
    crds: &[CustomResourceDefinition],
) -> Option<Finding> {
    let ours: Vec<&str> =
        crds.iter().filter(|crd| crd.spec.group == group).map(|crd| crd.spec.names.kind.as_str()).collect();
    let near = places::nearest(kind, ours.iter().copied());
    let remedy = match near {
        Some(near) => format!("Did you mean kind: {near}?"),
        None => format!("The kinds are: {}", ours.join(", ")),
    };
    (!ours.is_empty()).then(|| {
        Finding::error(document.find("kind").0, "kind", format!("{group} has no kind {kind}"), remedy)
    })
}

/// Returns the errors that `wanted` accepts, one per line with its location in the manifests.
pub fn list_errors(files: &[ManifestFile], wanted: impl Fn(&Finding) -> bool) -> String {
    let reports = files.iter().map(|file| lint(&file.text, &file.name));
    let errors = reports.map(|mut report| {
        report.findings.retain(|finding| finding.severity == FindingSeverity::Error && wanted(finding));
        report.to_string()
    });
    errors.collect()
}

/// Returns the errors about fields whose name occurs in `refusal`, one per line with its location in the manifests.
pub fn list_refused(files: &[ManifestFile], refusal: &str) -> String {
    list_errors(files, |finding| {
        let key = finding.field.rsplit(['.', ']']).next().unwrap_or_default();
        has_word(refusal, key)
    })
}

/// Returns true if the text contains the word, and not only as a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || ['-', '_'].contains(&character);
    let ends = |at: usize| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part);
    !word.is_empty() && text.match_indices(word).any(|(at, _)| ends(at))
}

/// Checks files and prints the findings. `-` is standard input.
pub fn main(files: &[PathBuf]) -> ExitStatus {
    let (mut errors, mut warnings, mut unread) = (0, 0, 0);
    for file in files {
        let name =
            if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
        match read_text_or_input(file) {
            Ok(text) => {
                let report = lint(&text, &name);
                errors += report.count(FindingSeverity::Error);
                warnings += report.count(FindingSeverity::Warning);
                write_out(&report.to_string());
            }
            Err(error) => {
                unread += 1;
                write_out(&format!("{name}: error: cannot be read: {error}\n"));
            }
        }
    }
    write_out(&format!(
        "{}, {} in {}\n",
        counted(errors + unread, "error"),
        counted(warnings, "warning"),
        counted(files.len(), "file")
    ));
    match (unread, errors) {
        (0, 0) => ExitStatus::Done,
        (0, _) => ExitStatus::Failed,
        _ => ExitStatus::Usage,
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
