//! Lists the crates and Go modules in the archive, and copies their license texts.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use nodeimage::sbom::{self, SpdxPackage};
use plane::tools::Tool;
use serde_json::Value;

use crate::args::Args;
use crate::crates;

/// The licenses that Go modules in a release may have. cargo-deny checks the crates' licenses.
const ALLOWED: [&str; 7] =
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"];

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
    for module in &modules {
        let is_allowed = module.licences.iter().any(|license| ALLOWED.contains(&license.as_str()));
        ensure!(
            is_allowed,
            "{} {} has no allowed license: {:?}",
            module.name,
            module.version,
            module.licences
        );
    }
    parts.extend(modules);
    Ok(sbom::document("layercake", version, "APPLICATION", &parts, args.epoch))
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
