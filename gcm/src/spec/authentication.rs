//! A cluster's token issuers, and the authentication configuration for its API servers.

use api::gcm::authentication::JwtAuthenticator;
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterSpec};
use api::names::annotation;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::release::version::Version;

/// The folder of the configuration file, on nodes and in the static Pod. The API server mounts the folder, not the file: Pods
/// in the workload cluster replace the file, and a mounted file would keep its old content until the static Pod restarts.
pub const AUTHENTICATION_FOLDER: &str = "/etc/kubernetes/authentication";
/// The name of the configuration file.
pub const AUTHENTICATION_FILE: &str = "config.yaml";

/// The first Kubernetes minor release whose API servers read the configuration by default.
pub const FIRST_RELEASE: (u64, u64) = (1, 30);
/// The first Kubernetes minor release with configuration version v1.
const FIRST_WITH_V1: (u64, u64) = (1, 34);
/// The value of the annotation [`annotation::API_SERVER`] for a cluster that has or had an issuer.
const ISSUERS: &str = "issuers";
/// Validation rules that prevent issuers from naming Kubernetes' own users and groups, whatever their prefixes are.
const USER_RULES: [(&str, &str); 2] = [
    ("!user.username.startsWith('system:')", "names of users must not begin with system:"),
    ("user.groups.all(group, !group.startsWith('system:'))", "names of groups must not begin with system:"),
];

/// Returns the issuers whose tokens a cluster's API servers accept.
pub fn issuers(spec: &TanzuKubernetesClusterSpec) -> &[JwtAuthenticator] {
    let settings = spec.settings.as_ref().and_then(|settings| settings.authentication.as_ref());
    settings.and_then(|settings| settings.jwt.as_deref()).unwrap_or_default()
}

/// Returns the path of the configuration file on nodes.
pub fn authentication_file() -> String {
    format!("{AUTHENTICATION_FOLDER}/{AUTHENTICATION_FILE}")
}

/// Returns true if a cluster's spec has or had an issuer. After the last issuer is removed, the API servers must still be
/// updated.
pub fn distributes_issuers(tkc: &TanzuKubernetesCluster) -> bool {
    !issuers(&tkc.spec).is_empty() || is_noted(tkc)
}

/// Returns the value to write to the annotation [`annotation::API_SERVER`], or `None` if the cluster has no issuers or already
/// has the annotation. gcm writes it before the workload cluster gets its first issuer, so that a moved cluster keeps it.
pub fn note_issuers(tkc: &TanzuKubernetesCluster) -> Option<&'static str> {
    (!issuers(&tkc.spec).is_empty() && !is_noted(tkc)).then_some(ISSUERS)
}

fn is_noted(tkc: &TanzuKubernetesCluster) -> bool {
    tkc.annotations().get(annotation::API_SERVER).is_some_and(|noted| noted == ISSUERS)
}

/// Returns true if API servers of this Kubernetes version read an authentication configuration.
pub fn is_supported(kubernetes: &str) -> bool {
    Version::parse(kubernetes).is_ok_and(|version| version.minor() >= FIRST_RELEASE)
}

/// Returns the `AuthenticationConfiguration` for API servers of this Kubernetes version and later.
pub fn configuration(issuers: &[JwtAuthenticator], kubernetes: &str) -> String {
    let is_v1 = Version::parse(kubernetes).is_ok_and(|version| version.minor() >= FIRST_WITH_V1);
    let version = if is_v1 { "v1" } else { "v1beta1" };
    let document = json!({
        "apiVersion": format!("apiserver.config.k8s.io/{version}"),
        "kind": "AuthenticationConfiguration",
        "jwt": issuers.iter().map(authenticator).collect::<Vec<_>>(),
    });
    format!("{document}\n")
}

fn authenticator(issuer: &JwtAuthenticator) -> Value {
    let JwtAuthenticator { issuer, claim_mappings, claim_validation_rules } = issuer;
    let rules = USER_RULES.map(|(expression, message)| json!({"expression": expression, "message": message}));
    let mut document = json!({
        "issuer": to_json(issuer),
        "claimMappings": to_json(claim_mappings),
        "userValidationRules": rules,
    });
    if let Some(rules) = claim_validation_rules {
        document["claimValidationRules"] = to_json(rules);
    }
    document
}

/// Converts a value to JSON. This can't fail, because these types don't contain maps with non-string keys.
fn to_json(value: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Returns the hash of a configuration, in the form in which API servers report it.
pub fn hash(configuration: &str) -> String {
    format!("sha256:{}", api::names::hex(&Sha256::digest(configuration)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::issuer;

    #[test]
    fn a_configuration_has_the_version_that_its_api_servers_know() {
        for (kubernetes, version) in [
            ("v1.30.1", "v1beta1"),
            ("v1.33.1+vmware.1-fips", "v1beta1"),
            ("v1.34.0", "v1"),
            ("v1.36.2+vmware.1", "v1"),
        ] {
            let text = configuration(&[], kubernetes);
            let wanted = format!("apiserver.config.k8s.io/{version}");
            let document: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(document["apiVersion"], wanted, "{kubernetes}");
            assert_eq!(document["jwt"], json!([]), "an API server refuses a file without the field");
        }
        assert!(is_supported("v1.30.0+vmware.1") && !is_supported("v1.29.9") && !is_supported("x"));
    }

    /// Without this rule, the owner of an issuer without prefixes could become a member of system:masters.
    #[test]
    fn no_issuer_names_users_of_kubernetes() {
        let document: Value = serde_json::from_str(&configuration(&[issuer("")], "v1.34.0")).unwrap();
        let rules = document["jwt"][0]["userValidationRules"].as_array().unwrap();
        assert_eq!(rules.len(), 2);
        assert!(rules.iter().all(|rule| rule["expression"].as_str().unwrap().contains("'system:'")));
        assert_eq!(document["jwt"][0].get("claimValidationRules"), None);
    }

    #[test]
    fn a_hash_is_that_of_the_metrics_of_an_api_server() {
        assert_eq!(hash("x"), "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
    }
}
