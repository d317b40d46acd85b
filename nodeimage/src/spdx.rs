//! Writes an image's software bill of materials (SBOM) as an SPDX 2.3 document.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::digest::sha256;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The package URL (purl).
    pub(crate) purl: String,
    pub(crate) source: String,
    /// The SPDX license identifiers. Empty if unknown.
    pub(crate) licences: BTreeSet<String>,
}

const LICENCE_REFERENCE: &str = "LicenseRef-";

pub(crate) fn document(name: &str, version: &str, parts: &BTreeSet<Part>, epoch: i64) -> Value {
    let ids: Vec<_> = (1..=parts.len()).map(|number| format!("SPDXRef-Package-{number}")).collect();
    let mut packages = vec![json!({
        "SPDXID": "SPDXRef-Image", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION", "primaryPackagePurpose": "OPERATING-SYSTEM",
    })];
    packages.extend(parts.iter().zip(&ids).map(|(part, id)| package(part, id)));
    let mut relationships = vec![relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image")];
    relationships.extend(ids.iter().map(|id| relationship("SPDXRef-Image", "CONTAINS", id)));
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

fn package(part: &Part, id: &str) -> Value {
    let licences: Vec<_> = part.licences.iter().map(String::as_str).collect();
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

    fn part(name: &str, licences: &[&str]) -> Part {
        Part {
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
        let document = document("node", "v1.36.3", &parts.into(), 1_789_199_741);
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
