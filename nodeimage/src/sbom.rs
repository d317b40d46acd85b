//! Writes the software bill of materials (SBOM) of an image or a release as an SPDX 2.3 document.

use std::collections::BTreeSet;

use jiff::Timestamp;
use plane::digest::sha256;
use serde_json::{Value, json};

pub use crate::contents::{copy_licenses, go_modules};

/// A package, crate or module that is part of an image or a release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpdxPackage {
    pub name: String,
    pub version: String,
    /// The package URL (purl).
    pub purl: String,
    /// The download location, or `NOASSERTION`.
    pub source: String,
    /// The SPDX license identifiers or expressions, all of which apply. Empty if unknown.
    pub licences: BTreeSet<String>,
}

const LICENCE_REFERENCE: &str = "LicenseRef-";

/// Returns the document for something that consists of `parts`. `purpose` is its primary package purpose, as SPDX names it, and
/// `epoch` is the document's time in seconds since 1970.
pub fn document(
    name: &str,
    version: &str,
    purpose: &str,
    parts: &BTreeSet<SpdxPackage>,
    epoch: i64,
) -> Value {
    let ids: Vec<_> = (1..=parts.len()).map(|number| format!("SPDXRef-Package-{number}")).collect();
    let mut packages = vec![json!({
        "SPDXID": "SPDXRef-Whole", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION", "primaryPackagePurpose": purpose,
    })];
    packages.extend(parts.iter().zip(&ids).map(|(part, id)| package(part, id)));
    let mut relationships = vec![relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Whole")];
    relationships.extend(ids.iter().map(|id| relationship("SPDXRef-Whole", "CONTAINS", id)));
    let references: BTreeSet<_> =
        parts.iter().flat_map(|part| &part.licences).filter(|id| id.starts_with(LICENCE_REFERENCE)).collect();
    let extracted = |id: &&String| json!({"licenseId": id, "extractedText": "The text is in /usr/share/doc/PACKAGE/copyright of the image."});
    // The namespace contains a digest, so that it identifies exactly these parts.
    let digest = sha256(Value::from(packages.clone()).to_string().as_bytes());
    json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": format!("https://layercake.invalid/spdx/{name}-{digest}"),
        "creationInfo": {
            "created": Timestamp::from_second(epoch).unwrap_or_default().to_string(),
            "creators": [format!("Tool: layercake-{}", env!("CARGO_PKG_VERSION"))],
        },
        "packages": packages,
        "relationships": relationships,
        "hasExtractedLicensingInfos": references.iter().map(extracted).collect::<Vec<_>>(),
    })
}

fn package(part: &SpdxPackage, id: &str) -> Value {
    let bracket = |licence: &String| {
        if licence.contains(" OR ") && part.licences.len() > 1 {
            format!("({licence})")
        } else {
            licence.clone()
        }
    };
    let licences: Vec<_> = part.licences.iter().map(bracket).collect();
    let declared = if licences.is_empty() { "NOASSERTION".to_owned() } else { licences.join(" AND ") };
    json!({
        "SPDXID": id, "name": part.name, "versionInfo": part.version, "downloadLocation": part.source,
        "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": declared,
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.purl,
        }],
    })
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, licences: &[&str]) -> SpdxPackage {
        SpdxPackage {
            name: name.to_owned(),
            version: "1".to_owned(),
            purl: format!("pkg:deb/debian/{name}@1?arch=amd64"),
            source: "NOASSERTION".to_owned(),
            licences: licences.iter().map(|&id| id.to_owned()).collect(),
        }
    }

    #[test]
    fn every_part_is_listed_with_its_licences() {
        let parts = [part("dash", &["BSD-3-Clause", "LicenseRef-debian-gpl"]), part("zlib1g", &[])];
        let document = document("node", "v1.36.3", "OPERATING-SYSTEM", &parts.into(), 1_789_199_741);
        let declared: Vec<_> = document["packages"].as_array().unwrap()[1..]
            .iter()
            .map(|package| (package["name"].as_str().unwrap(), package["licenseDeclared"].as_str().unwrap()))
            .collect();
        assert_eq!(declared, [("dash", "BSD-3-Clause AND LicenseRef-debian-gpl"), ("zlib1g", "NOASSERTION")]);
        assert_eq!(document["creationInfo"]["created"], "2026-09-12T07:55:41Z");
        assert_eq!(document["relationships"].as_array().unwrap().len(), 3);
        assert_eq!(document["hasExtractedLicensingInfos"][0]["licenseId"], "LicenseRef-debian-gpl");
    }
}
