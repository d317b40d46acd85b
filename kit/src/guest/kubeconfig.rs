//! Parses a tenant's kubeconfig. Only certificates, keys and tokens are used, because tenants can write the Secret.
//!
//! Commands, file paths, proxies and the server in the kubeconfig are ignored.

use std::error::Error;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bounds::{Budget, Exceeded, from_yaml};
use k8s_openapi::api::core::v1::Secret;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;

use crate::bounded::{ComputationLimits, compute};

/// The key under which Cluster API stores the kubeconfig in the Secret.
pub const KEY: &str = "value";
/// The maximum kubeconfig size in bytes. A kubeconfig from Cluster API has about 6000 bytes.
const LONGEST: usize = 256 << 10;
/// The limits for reading a kubeconfig.
const LIMITS: ComputationLimits = ComputationLimits { bytes: 4 << 20, time: Duration::from_secs(5) };

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    user: Option<User>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
}

/// The reason why a kubeconfig can't be used. It doesn't quote the kubeconfig.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl From<Exceeded> for Unusable {
    fn from(exceeded: Exceeded) -> Self {
        Self(format!("reading it: {exceeded}"))
    }
}

/// Returns the URL for the API server at this host. An IPv6 address is put in brackets.
pub fn server(host: &str, port: u16) -> String {
    if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") }
}

/// Creates a client for the API server at `server`, with the credentials in the Secret, on behalf of `namespace`. A response
/// may have at most `most` bytes.
pub(super) async fn build_client(
    namespace: &str,
    secret: &Secret,
    server: &str,
    most: usize,
) -> Result<(Client, Config), String> {
    read(namespace, secret, server, move |config| {
        let client = crate::client::bounded(config.clone(), most)?;
        Ok((client, config))
    })
    .await
}

/// Calls `make` with the config for the API server at `server` and the credentials in the Secret, on behalf of `namespace`.
///
/// # Errors
/// Returns what is missing or invalid in the Secret. The message doesn't quote the Secret. It doesn't include
/// the error from `make` either, because that error can quote the Secret.
pub async fn read<T: Send + 'static>(
    namespace: &str,
    secret: &Secret,
    server: &str,
    make: impl FnOnce(Config) -> Result<T, Box<dyn Error + Send + Sync>> + Send + 'static,
) -> Result<T, String> {
    let value = secret.data.as_ref().and_then(|data| data.get(KEY));
    let value = value.ok_or_else(|| format!("it has no key {KEY}"))?;
    if value.0.len() > LONGEST {
        return Err(format!("it has {} bytes at {KEY}; the limit is {LONGEST}", value.0.len()));
    }
    let (bytes, server) = (value.0.clone(), server.to_owned());
    let computed = compute(namespace, LIMITS, move |budget| {
        let text = std::str::from_utf8(&bytes).map_err(|_| Unusable("it is not a kubeconfig".to_owned()))?;
        let config = parse_config(text, &server, budget)?;
        let unusable = "its user's certificate, key or token can't be read";
        make(config).map_err(|_| Unusable(unusable.to_owned()))
    });
    computed.await.map_err(|Unusable(what)| what)
}

/// Returns the config for the API server at `server`, with the credentials in the kubeconfig `text`.
///
/// # Errors
/// Returns what is missing or invalid. The message doesn't quote the kubeconfig.
pub fn parse_config(text: &str, server: &str, budget: &Budget) -> Result<Config, Unusable> {
    let unusable = |what: &str| Unusable(what.to_owned());
    let read: File = from_yaml(text, budget).map_err(|_| unusable("it is not a kubeconfig"))?;
    let authority = read.clusters.into_iter().find_map(|named| named.cluster?.certificate_authority_data);
    let authority = authority.ok_or_else(|| unusable("it has no certificate-authority-data"))?;
    let user = read.users.into_iter().find_map(|named| named.user);
    let user = user.ok_or_else(|| unusable("it has no user"))?;
    let User { client_certificate_data, client_key_data, token } = user;
    if token.is_none() && (client_certificate_data.is_none() || client_key_data.is_none()) {
        return Err(unusable("its user has neither client-certificate-data and client-key-data nor a token"));
    }
    let mut config = Config::new(server.parse().map_err(|_| unusable("its server is not a URL"))?);
    config.root_cert = Some(
        decode_certificates(&authority, budget)?.ok_or_else(|| unusable("its certificates can't be read"))?,
    );
    config.auth_info = AuthInfo {
        client_certificate_data,
        client_key_data: client_key_data.map(Into::into),
        token: token.map(Into::into),
        ..AuthInfo::default()
    };
    // The environment's proxy is for this program's own API server.
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.write_timeout = Some(Duration::from_secs(15));
    config.read_timeout = None;
    Ok(config)
}

/// Decodes base64-encoded PEM certificates to DER. Returns `None` if `data` contains no certificate, or one that can't be read.
fn decode_certificates(data: &str, budget: &Budget) -> Result<Option<Vec<Vec<u8>>>, Exceeded> {
    budget.spend(data.len().saturating_mul(2))?;
    let Ok(pem) = STANDARD.decode(data.trim()) else { return Ok(None) };
    let certificates = CertificateDer::pem_slice_iter(&pem);
    let read: Result<Vec<_>, _> = certificates.map(|read| read.map(|der| der.to_vec())).collect();
    Ok(read.ok().filter(|all| !all.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://169.254.169.254", "proxy-url": "http://evil",
            "insecure-skip-tls-verify": true, "certificate-authority": "/etc/passwd", "certificate-authority-data": "CA"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {"exec": {"command": "/bin/touch", "args": ["/tmp/run-by-gcm"], "apiVersion": "client.authentication.k8s.io/v1"},
            "tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token", "client-key": "/etc/shadow", TOKEN}}]}"#;
    const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJBRENCcXdJQkFEQU5CZ2txaGtpRzl3MEJBUXNGQURBQU1CNFgKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

    fn read(text: &str) -> Result<Config, Unusable> {
        parse_config(text, "https://10.0.0.1:6443", &Budget::new(LIMITS.bytes))
    }

    #[test]
    fn a_kubeconfig_of_a_tenant_runs_nothing_reads_no_file_and_leads_nowhere_else() {
        let text = HOSTILE.replace("\"CA\"", &format!("{PEM:?}")).replace("TOKEN", "\"token\": \"t\"");
        let config = read(&text).unwrap();
        assert_eq!(config.cluster_url.host(), Some("10.0.0.1"));
        assert!(config.proxy_url.is_none() && !config.accept_invalid_certs);
        assert_eq!(config.root_cert.as_ref().map(Vec::len), Some(1));
        let auth = &config.auth_info;
        assert!(auth.exec.is_none() && auth.token_file.is_none() && auth.client_key.is_none());
    }

    #[test]
    fn what_it_lacks_is_named_and_its_text_is_not() {
        let text = HOSTILE.replace("TOKEN", "\"password\": \"canary\"");
        let Unusable(error) = read(&text).unwrap_err();
        assert!(error.contains("client-certificate-data") && !error.contains("canary"), "{error}");
        let Unusable(error) = read("canary: [").unwrap_err();
        assert!(!error.contains("canary"), "{error}");
    }

    #[test]
    fn aliases_and_many_small_values_are_refused() {
        let text = HOSTILE.replace("\"CA\"", &format!("{PEM:?}")).replace("TOKEN", "\"token\": \"t\"");
        let aliases = text.replacen("\"x\"", "&a \"x\"", 1).replacen("\"user\": \"x\"", "\"user\": *a", 1);
        assert_eq!(read(&aliases).unwrap_err(), Unusable("it is not a kubeconfig".into()));
        let many = format!("{{\"clusters\": [{}]}}", "{},".repeat(80_000));
        assert!(many.len() < LONGEST && read(&many).is_err());
    }

    #[tokio::test]
    async fn a_secret_that_is_no_kubeconfig_by_its_length_is_not_read() {
        let mut secret = Secret::default();
        let value = k8s_openapi::ByteString(vec![b' '; LONGEST + 1]);
        secret.data = Some([(KEY.to_owned(), value)].into());
        let error = build_client("a", &secret, "https://10.0.0.1", 1).await.err().unwrap();
        assert_eq!(error, "it has 262145 bytes at value; the limit is 262144");
    }
}
