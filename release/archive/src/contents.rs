//! Lists the crates and Go modules in the archive, and copies their license texts.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use nodeimage::sbom::{self, SpdxPackage};
use plane::tools::Tool;
use serde_json::Value;

use crate::Args;
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
