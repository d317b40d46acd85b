//! Kubeconfig files as kubeadm writes them, and clients made of them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::certs::Leaf;
use super::failure::Failure;

/// Who asks.
pub enum Credential<'a> {
    /// Nobody.
    Anonymous,
    /// A bootstrap token.
    Token(&'a str),
    /// A client certificate.
    Certificate(&'a Leaf),
}

/// A kubeconfig with one cluster and one user, everything embedded.
///
/// JSON, which every reader of kubeconfigs takes as the YAML it is.
pub fn kubeconfig(
    cluster: &str,
    server: &str,
    ca_pem: &str,
    user: &str,
    credential: &Credential<'_>,
) -> String {
    let credential = match credential {
        Credential::Anonymous => json!({}),
        Credential::Token(token) => json!({ "token": token }),
        Credential::Certificate(leaf) => json!({
            "client-certificate-data": STANDARD.encode(&leaf.certificate),
            "client-key-data": STANDARD.encode(&leaf.key),
        }),
    };
    let context = format!("{user}@{cluster}");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": cluster, "cluster": trust(server, ca_pem) }],
        "users": [{ "name": user, "user": credential }],
        "contexts": [{ "name": context, "context": { "cluster": cluster, "user": user } }],
        "current-context": context,
    });
    config.to_string()
}

/// What `cluster-info` publishes: where the cluster is and whom to trust, and no user.
pub fn cluster_info(server: &str, ca_pem: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "", "cluster": trust(server, ca_pem) }],
        "users": [],
        "contexts": [],
        "current-context": "",
    });
    config.to_string()
}

fn trust(server: &str, ca_pem: &str) -> Value {
    json!({ "server": server, "certificate-authority-data": STANDARD.encode(ca_pem) })
}

/// A client for a kubeconfig's text.
pub async fn client(kubeconfig: &str) -> Result<kube::Client, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::host("make a client of the cluster", error);
    let parsed = Kubeconfig::from_yaml(kubeconfig).map_err(|error| failed(&error))?;
    let mut config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(&error))?;
    bounded(&mut config);
    kube::Client::try_from(config).map_err(|error| failed(&error))
}

/// A client that trusts whoever answers: only to read `cluster-info`, which carries its own signature.
pub fn untrusting_client(server: &str) -> Result<kube::Client, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::host("make a client of the cluster", error);
    let mut config =
        kube::Config::new(server.parse().map_err(|error: http::uri::InvalidUri| failed(&error))?);
    config.accept_invalid_certs = true;
    bounded(&mut config);
    kube::Client::try_from(config).map_err(|error| failed(&error))
}

/// No call hangs: behind a virtual IP there may be nobody, and without quorum an API server only waits.
fn bounded(config: &mut kube::Config) {
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(15));
    config.write_timeout = Some(Duration::from_secs(15));
    config.reset_reader_on_write = true;
}
