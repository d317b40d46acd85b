//! Creates kubeconfig files as kubeadm writes them, and clients that use them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pki::Pair;
use serde_json::{Value, json};

use super::failure::Failure;

/// A kubeconfig user's credential.
pub enum Credential<'a> {
    /// An anonymous user.
    Anonymous,
    /// A bootstrap token.
    Token(&'a str),
    /// A client certificate.
    Certificate(&'a Pair),
}

/// Returns a kubeconfig with one cluster, one user and embedded certificates and keys.
///
/// The kubeconfig is JSON. Every reader accepts it, because JSON is valid YAML.
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
            "client-key-data": STANDARD.encode(&*leaf.key),
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

/// Returns the kubeconfig that `cluster-info` publishes: the server and its CA, without a user.
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

/// Creates a client from a kubeconfig.
pub async fn client(kubeconfig: &str) -> Result<kube::Client, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::host("make a client of the cluster", error);
    let parsed = Kubeconfig::from_yaml(kubeconfig).map_err(|error| failed(&error))?;
    let mut config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(&error))?;
    bounded(&mut config);
    kube::Client::try_from(config).map_err(|error| failed(&error))
}

/// Creates a client that doesn't verify the server's certificate. Use it only to read `cluster-info`, whose content is signed.
pub fn untrusting_client(server: &str) -> Result<kube::Client, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::host("make a client of the cluster", error);
    let mut config =
        kube::Config::new(server.parse().map_err(|error: http::uri::InvalidUri| failed(&error))?);
    config.accept_invalid_certs = true;
    bounded(&mut config);
    kube::Client::try_from(config).map_err(|error| failed(&error))
}

/// Disables proxies and sets timeouts. Without timeouts, calls could hang, because a virtual IP might not have a
/// holder, and an API server without an etcd quorum doesn't respond.
fn bounded(config: &mut kube::Config) {
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(15));
    config.write_timeout = Some(Duration::from_secs(15));
    config.reset_reader_on_write = true;
}
