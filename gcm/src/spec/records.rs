//! What is noted on a TanzuKubernetesCluster of its API servers, in the annotation [`annotation::API_SERVER`].

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use kube::ResourceExt;

/// They write an audit log.
pub const AUDIT: &str = "audit";
/// They encrypt Secrets.
pub const ENCRYPTED: &str = "encryption";
/// They read a configuration of issuers.
pub const AUTHENTICATION: &str = "authentication";
/// The guest has the Pods that bring the configuration of issuers to its API servers. It is noted with the first issuer.
pub const ISSUERS: &str = "issuers";

/// Returns true if the word is noted.
pub fn is_noted(tkc: &TanzuKubernetesCluster, word: &str) -> bool {
    words(tkc).any(|noted| noted == word)
}

/// Returns the value of the annotation with these words added, or nothing if it has them all.
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
