//! Lists the crates and Go modules in the archive, and copies their license texts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nodeimage::sbom::{self, SpdxPackage};
use plane::tools::Tool;
use serde_json::Value;

use crate::args::Args;
use crate::crates;

/// The licenses that Go modules in a release may have. cargo-deny checks the crates' licenses.
const ALLOWED: [&str; 7] =
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"];

/// Modules without a license file, which are copies of Go's own packages: their sources refer to Go's license.
const LICENSED_AS_GO: [&str; 1] = ["github.com/ajeddeloh/go-json"];
/// Go's license.
const GO_LICENSE: &str = "BSD-3-Clause";

/// Copies the license texts to `licenses`, and returns the SPDX document that lists the crates and modules. Fails if a Go module
/// lacks an allowed license.
pub fn write(args: &Args, version: &str, tools: &[&'static Tool], licenses: &Path) -> Result<Value> {
    let mut parts = BTreeSet::new();
    for found in crates::of(&["layercake"], &args.source)? {
        if found.source.is_some() {
            let into = licenses.join("rust").join(format!("{}-{}", found.name, found.version));
            sbom::copy_licenses(found.folder(), &into)?;
        }
        parts.insert(SpdxPackage {
            purl: format!("pkg:cargo/{}@{}", found.name, found.version.replace('+', "%2B")),
            source: if found.source.is_some() {
                "https://crates.io".to_owned()
            } else {
                "NOASSERTION".to_owned()
            },
            licences: found.license.iter().map(|license| license.replace('/', " OR ")).collect(),
            name: found.name,
            version: found.version,
        });
    }
    let modules = sbom::go_modules(tools, &args.go, &licenses.join("go"))?;
    let modules: Vec<_> = modules.into_iter().map(clarified).collect();
    let refused: Vec<_> = modules.iter().filter(|module| !is_allowed(module)).map(describe).collect();
    ensure!(refused.is_empty(), "these modules have no allowed license:\n{}", refused.join("\n"));
    for name in LICENSED_AS_GO.iter().chain(&["stdlib"]) {
        copy_go_license(&licenses.join("go").join(name))?;
    }
    parts.extend(modules);
    Ok(sbom::document("layercake", version, "APPLICATION", &parts, args.epoch))
}

/// Returns the module with the license that its sources refer to, if it has no license file.
fn clarified(module: SpdxPackage) -> SpdxPackage {
    if module.licences.is_empty() && LICENSED_AS_GO.contains(&module.name.as_str()) {
        return SpdxPackage { licences: [GO_LICENSE.to_owned()].into(), ..module };
    }
    module
}

fn is_allowed(module: &SpdxPackage) -> bool {
    module.licences.iter().any(|license| ALLOWED.contains(&license.as_str()))
}

fn describe(module: &SpdxPackage) -> String {
    let licenses: Vec<_> = module.licences.iter().map(String::as_str).collect();
    let found = if licenses.is_empty() { "no license file".to_owned() } else { licenses.join(", ") };
    format!("{} {}: {found}", module.name, module.version)
}

/// Copies the license text of the Go distribution.
fn copy_go_license(into: &Path) -> Result<()> {
    let output = Command::new("go").args(["env", "GOROOT"]).output().context("cannot run go")?;
    let text = PathBuf::from(String::from_utf8(output.stdout)?.trim()).join("LICENSE");
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    fs::copy(&text, into.join("LICENSE")).with_context(|| format!("cannot copy {}", text.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use plane::tools;

    use super::*;

    /// Go records in each program which modules it linked; the list of the sources must have all of them.
    #[test]
    fn every_module_in_the_programs_is_listed() {
        let all: Vec<_> = tools::control_plane().chain(sim::tools::programs()).collect();
        let programs = tools::ensure_all(&all, &*tools::progress()).unwrap();
        let go = tools::go_version().unwrap();
        let licenses = tempfile::tempdir().unwrap();
        let modules = sbom::go_modules(&all, &go, licenses.path()).unwrap();
        let listed: BTreeSet<_> = modules.iter().map(|module| (&*module.name, &*module.version)).collect();
        for (name, program) in programs {
            let output = Command::new("go").args(["version", "-m"]).arg(&program).output().unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            let linked = linked_modules(&output);
            assert!(!linked.is_empty(), "{name} has no list of modules: {output}");
            let missing: Vec<_> = linked.iter().filter(|module| !listed.contains(*module)).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
        let refused: Vec<_> = modules
            .into_iter()
            .map(clarified)
            .filter(|module| !is_allowed(module))
            .map(|one| describe(&one))
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn a_module_needs_an_allowed_license() {
        let module = |name: &str, licenses: &[&str]| SpdxPackage {
            name: name.to_owned(),
            version: "v1.0.0".to_owned(),
            purl: String::new(),
            source: String::new(),
            licences: licenses.iter().map(ToString::to_string).collect(),
        };
        assert!(is_allowed(&clarified(module("a", &["GPL-2.0-only", "MIT"]))));
        assert!(is_allowed(&clarified(module(LICENSED_AS_GO[0], &[]))));
        for (refused, shown) in [
            (module("a", &["GPL-2.0-only"]), "a v1.0.0: GPL-2.0-only"),
            (module("b", &[]), "b v1.0.0: no license file"),
        ] {
            assert!(!is_allowed(&clarified(refused.clone())));
            assert_eq!(describe(&refused), shown);
        }
    }

    /// Parses the output of `go version -m`. A line `=>` has the module that replaces the one in the line before. Leaves out modules
    /// without a released version, which are embedded.
    fn linked_modules(output: &str) -> Vec<(&str, &str)> {
        let mut modules = Vec::new();
        for line in output.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            match fields[..] {
                ["dep", path, version, ..] => modules.push((path, version)),
                ["=>", path, version, ..] => {
                    modules.pop();
                    modules.push((path, version));
                }
                _ => {}
            }
        }
        modules.retain(|(_, version)| version.starts_with('v') && !version.starts_with("v0.0.0-00010101"));
        modules
    }

    #[test]
    fn replaced_modules_are_parsed() {
        let output = "x: go1.26.8\n\tpath\ta/b\n\tdep\tc\tv1.0.0\th1:x=\n\tdep\td\tv1.1.0\n\t=>\te\tv1.2.0\th1:y=\n\tdep\tf\t(devel)\n";
        assert_eq!(linked_modules(output), [("c", "v1.0.0"), ("e", "v1.2.0")]);
    }
}
