//! Checks a TkgServiceConfiguration with the rules of admission.

use api::gcm::TkgServiceConfigurationSpec;
use api::gcm::service_configuration::SERVICE_CONFIGURATION;
use gcm::admission::inherited;
use jiff::Timestamp;

use super::finding::Finding;
use super::tree::YamlNode;

/// Returns the findings about a configuration. Leaves out the spec's findings if the spec can't be parsed.
pub fn check_configuration(document: &YamlNode) -> Vec<Finding> {
    let object = document.to_json();
    let mut findings = Vec::new();
    if object["metadata"]["name"].as_str().is_some_and(|name| name != SERVICE_CONFIGURATION) {
        let reason = "only one configuration can exist, for all clusters";
        let remedy = format!("Name it {SERVICE_CONFIGURATION}");
        findings.push(Finding::error(document.find("metadata.name").0, "metadata.name", reason, remedy));
    }
    let Ok(spec) = serde_json::from_value::<TkgServiceConfigurationSpec>(object["spec"].clone()) else {
        return findings;
    };
    findings.extend(inherited::denials(&spec).into_iter().map(|denial| {
        let line = document.find(&denial.field).0;
        Finding::error(line, &denial.field, denial.reason, denial.remedy)
    }));
    findings.extend(inherited::warnings(&spec, Timestamp::now()).iter().map(|warning| {
        let (field, reason) = warning.split_once(": ").unwrap_or(("spec", warning));
        Finding::warning(document.find(field).0, field, reason, "")
    }));
    findings
}
