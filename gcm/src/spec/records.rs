//! API server features that gcm records on a TanzuKubernetesCluster, in the annotation [`annotation::API_SERVER`].

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use kube::ResourceExt;

/// The word for API servers that write an audit log.
pub const AUDIT: &str = "audit";
/// The word for API servers that encrypt Secrets.
pub const ENCRYPTED: &str = "encryption";
/// The word for API servers that read an authentication configuration.
pub const AUTHENTICATION: &str = "authentication";
/// The word for a workload cluster whose Pods distribute the authentication configuration to the API servers. Recorded with the
/// first issuer.
pub const ISSUERS: &str = "issuers";

/// Returns true if the word is recorded.
pub fn is_noted(tkc: &TanzuKubernetesCluster, word: &str) -> bool {
    words(tkc).any(|noted| noted == word)
}

/// Returns the annotation value with these words added, or `None` if the annotation already contains all of them.
pub fn with_words(tkc: &TanzuKubernetesCluster, added: &[&str]) -> Option<String> {
    let mut all: Vec<&str> = words(tkc).collect();
    let before = all.len();
    all.extend(added.iter().filter(|word| !is_noted(tkc, word)));
    (all.len() > before).then(|| all.join(","))
}

fn words(tkc: &TanzuKubernetesCluster) -> impl Iterator<Item = &str> {
    let noted = tkc.annotations().get(annotation::API_SERVER).map(String::as_str).unwrap_or_default();
    noted.split(',').map(str::trim).filter(|word| !word.is_empty())
}
