//! `layercake lint`: what is wrong with a manifest, before any cluster sees it.
//!
//! An API server that is not asked to be strict drops a field it does not know without a word, and the
//! administrator gets a cluster without the setting he wrote. Here every such field is named, with the
//! place it belongs to.

mod cluster;
mod places;
mod schema;
mod tree;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::Read as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::LazyLock,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use self::{
    places::Places,
    tree::{Kind, Node},
};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The manifest is refused, or does not mean what its author thinks.
    Error,
    /// The manifest is accepted, and something about it is likely to hurt.
    Warning,
    /// Worth knowing.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One thing to say about a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line it is about, from 1; 0 if there is none.
    pub line: u64,
    /// How bad it is.
    pub severity: Severity,
    /// The field it is about, as the manifest's version calls it.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Finding {
    fn new(severity: Severity, line: u64, field: &str, reason: String, remedy: String) -> Self {
        Self { line, severity, field: field.to_owned(), reason, remedy }
    }

    fn error(line: u64, field: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Error, line, field, reason.into(), remedy.into())
    }

    fn warning(line: u64, field: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Warning, line, field, reason.into(), remedy.into())
    }

    fn note(line: u64, field: &str, reason: impl Into<String>) -> Self {
        Self::new(Severity::Note, line, field, reason.into(), String::new())
    }
}

/// What is to be said about one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The file, as its reader knows it.
    pub file: String,
    /// Everything found, by line.
    pub findings: Vec<Finding>,
    /// How many objects of kinds that can be checked are in it.
    pub checked: usize,
}

impl Report {
    /// How many findings of this severity there are.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { line, severity, field, reason, remedy } in &self.findings {
            write!(f, "{}:{line}: {severity}: ", self.file)?;
            if !field.is_empty() {
                write!(f, "{field}: ")?;
            }
            write!(f, "{reason}.")?;
            if !remedy.is_empty() {
                write!(f, " {remedy}.")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Everything to say about the manifests in a text; `file` is only repeated.
pub fn lint(text: &str, file: &str) -> Report {
    static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(api::crds::all);
    let mut report = Report { file: file.to_owned(), ..Report::default() };
    match tree::documents(text) {
        Ok(documents) => {
            for document in documents.iter().filter(|document| !document.is_null()) {
                object(document, &CRDS, &mut report);
            }
            if report.checked == 0 && report.findings.is_empty() {
                let reason = "there is nothing in it that can be checked";
                report.findings.push(Finding::note(1, "", reason));
            }
        }
        Err(error) => {
            let remedy = "Correct its indentation, quotes and brackets";
            report.findings.push(Finding::error(
                error.line,
                "",
                format!("this is no YAML: {}", error.reason),
                remedy,
            ));
        }
    }
    report.findings.sort_by_key(|finding| (finding.line, finding.severity));
    report
}

fn object(document: &Node, crds: &[CustomResourceDefinition], report: &mut Report) {
    let Kind::Map(_) = &document.kind else {
        let finding = Finding::error(
            document.line,
            "",
            "this is no object",
            "Write apiVersion, kind, metadata and spec",
        );
        return report.findings.push(finding);
    };
    let text = |key: &str| document.get(key).and_then(Node::text);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        let missing = if text("apiVersion").is_none() { "apiVersion" } else { "kind" };
        let remedy = "Every object begins with apiVersion and kind";
        return report.findings.push(Finding::error(document.line, missing, "it is missing", remedy));
    };
    if kind == "List" {
        if let Some(Kind::List(items)) = document.get("items").map(|items| &items.kind) {
            for item in items {
                object(item, crds, report);
            }
        }
        return;
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
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
    let mut findings = schema::findings(document, schema, &Places::of(crd, version));
    if kind == "TanzuKubernetesCluster" {
        // What is missing because it stands in the wrong place needs to be said only once.
        let told = |field: &str| findings.iter().any(|finding| finding.field == field);
        let more: Vec<_> = cluster::findings(document, version)
            .into_iter()
            .filter(|finding| {
                findings.is_empty() || (document.find(&finding.field).1 && !told(&finding.field))
            })
            .collect();
        findings.extend(more);
    }
    report.findings.extend(findings);
}

fn versions(crd: &CustomResourceDefinition) -> String {
    let names: Vec<&str> = crd.spec.versions.iter().map(|version| version.name.as_str()).collect();
    names.join(", ")
}

fn wrong_version(
    document: &Node,
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
            format!("{kind} has no such version"),
            remedy,
        )
    })
}

/// A kind of our groups that does not exist; other kinds are other people's.
fn unknown_kind(
    document: &Node,
    group: &str,
    kind: &str,
    crds: &[CustomResourceDefinition],
) -> Option<Finding> {
    let ours: Vec<&str> =
        crds.iter().filter(|crd| crd.spec.group == group).map(|crd| crd.spec.names.kind.as_str()).collect();
    let near = places::nearest(kind, ours.iter().copied());
    let remedy = match near {
        Some(near) => format!("Perhaps {near} is meant"),
        None => format!("There are: {}", ours.join(", ")),
    };
    (!ours.is_empty()).then(|| {
        Finding::error(document.find("kind").0, "kind", format!("{group} has no kind {kind}"), remedy)
    })
}

/// Checks files and prints what is found; `-` is standard input. Fails if a file cannot be read or has
/// an error in it.
pub fn main(files: &[PathBuf]) -> ExitCode {
    let (mut errors, mut warnings) = (0, 0);
    for file in files {
        let name =
            if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
        match read(file) {
            Ok(text) => {
                let report = lint(&text, &name);
                errors += report.count(Severity::Error);
                warnings += report.count(Severity::Warning);
                print!("{report}");
            }
            Err(error) => {
                errors += 1;
                println!("{name}: error: cannot be read: {error}");
            }
        }
    }
    println!(
        "{}, {} in {}",
        counted(errors, "error"),
        counted(warnings, "warning"),
        counted(files.len(), "file")
    );
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
