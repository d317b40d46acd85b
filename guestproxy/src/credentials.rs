//! Creates the TLS configurations for both connections (manager to proxy, and proxy to cluster) from the Secrets that Cluster API
//! writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kit::guest::kubeconfig;
use kube::client::ConfigExt;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::authority;
use crate::clusters::TargetCluster;

/// The time for which Secrets are cached. Cluster API renews certificates months before they expire.
const KEPT: Duration = Duration::from_mins(1);
const ALPN: &[u8] = b"http/1.1";

/// The TLS configurations for one cluster.
pub struct TlsConfigurations {
    /// The server configuration for managers. It contains a certificate for the cluster's host, and the cluster's certificate
    /// authority to verify client certificates.
    pub server: Arc<ServerConfig>,
    /// The client configuration for the cluster, with the kubeconfig's client certificate.
    pub client: Arc<ClientConfig>,
    /// The client configuration for the cluster, without a client certificate.
    pub anonymous: Arc<ClientConfig>,
    /// The subject of the kubeconfig's client certificate, in its DER encoding.
    subject: Option<Vec<u8>>,
}

/// The forwarding mode for connections to a cluster.
#[derive(Clone)]
pub enum ForwardingMode {
    /// The proxy terminates TLS.
    Known(Arc<TlsConfigurations>),
    /// The proxy can't read the traffic, because the management cluster doesn't have the key of the cluster's certificate
    /// authority.
    Opaque,
}

/// Reads Secrets, and caches the resulting credentials for a short time.
pub struct Vault {
    client: Client,
    kept: Mutex<HashMap<(String, String), (Instant, ForwardingMode)>>,
}

impl Vault {
    /// Creates a vault that reads Secrets with this client.
    pub fn new(client: Client) -> Self {
        Self { client, kept: Mutex::default() }
    }

    /// Returns the forwarding mode for a cluster, with credentials from the cache or from the cluster's Secrets.
    ///
    /// # Errors
    /// Returns a message that says which Secret is missing or can't be used. The message doesn't quote the Secret.
    pub async fn trust(&self, target: &TargetCluster) -> Result<ForwardingMode, String> {
        let key = (target.uid.clone(), target.url());
        let kept = self
            .kept
            .lock()
            .get(&key)
            .filter(|(read, _)| read.elapsed() < KEPT)
            .map(|(_, trust)| trust.clone());
        if let Some(trust) = kept {
            return Ok(trust);
        }
        let trust = self.read(target).await?;
        let mut kept = self.kept.lock();
        kept.retain(|_, (read, _)| read.elapsed() < KEPT);
        kept.insert(key, (Instant::now(), trust.clone()));
        Ok(trust)
    }

    /// Drops a cluster's cached credentials after they failed, so that the next connection to the cluster reads the Secrets
    /// again.
    pub fn forget(&self, target: &TargetCluster) {
        self.kept.lock().remove(&(target.uid.clone(), target.url()));
    }

    async fn read(&self, target: &TargetCluster) -> Result<ForwardingMode, String> {
        let (ca_name, kubeconfig_name) =
            (format!("{}-ca", target.name), format!("{}-kubeconfig", target.name));
        let (ca, kubeconfig) =
            tokio::try_join!(self.secret(target, &ca_name), self.secret(target, &kubeconfig_name))?;
        let missing = |name: &str| format!("Secret {}/{name} does not exist", target.namespace);
        let Some(ca) = ca else {
            return if target.is_kubeadm { Err(missing(&ca_name)) } else { Ok(ForwardingMode::Opaque) };
        };
        let kubeconfig = kubeconfig.ok_or_else(|| missing(&kubeconfig_name))?;
        let data = |key: &str| ca.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
        let named = |secret: &str, error: &str| {
            format!("Secret {}/{secret} can't be used: {error}", target.namespace)
        };
        let certificate = data("tls.crt").ok_or_else(|| named(&ca_name, "it has no key tls.crt"))?;
        let Some(key) = data("tls.key").filter(|key| !key.is_empty()) else {
            return Ok(ForwardingMode::Opaque);
        };
        let (host, url) = (target.host.clone(), target.url());
        let made = kubeconfig::read(&target.namespace, &kubeconfig, &url, move |config| {
            // The inner error belongs to the CA Secret, and the outer error to the kubeconfig Secret.
            Ok(server_config(&certificate, &key, &host).map(|server| (server, config)))
        });
        let made = made.await.map_err(|error| named(&kubeconfig_name, &error))?;
        let (server, config) = made.map_err(|error| named(&ca_name, &error))?;
        let unusable = |_| named(&kubeconfig_name, "its user's certificate or key can't be read");
        let (client, anonymous) = client_configs(&config).map_err(unusable)?;
        let subject = config.auth_info.client_certificate_data.as_deref().and_then(subject);
        Ok(ForwardingMode::Known(Arc::new(TlsConfigurations { server, client, anonymous, subject })))
    }

    async fn secret(&self, target: &TargetCluster, name: &str) -> Result<Option<Secret>, String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &target.namespace);
        let found = secrets.get_opt(name).await;
        found.map_err(|error| format!("Secret {}/{name} can't be read: {error}", target.namespace))
    }
}

impl TlsConfigurations {
    /// Returns the client configuration for a manager. `shown` is the certificate that the manager presented, if any. The TLS
    /// handshake has already verified that the cluster's certificate authority signed it.
    ///
    /// The kubeconfig's client certificate is only used for a manager whose certificate has the same subject, so that
    /// the proxy doesn't grant additional rights.
    ///
    /// # Errors
    /// Returns an error if the certificate belongs to a user other than the one in the kubeconfig.
    pub fn client_for(&self, shown: Option<&CertificateDer<'_>>) -> Result<Arc<ClientConfig>, &'static str> {
        match shown {
            None => Ok(Arc::clone(&self.anonymous)),
            Some(shown) if self.subject.is_some() && authority::subject(shown) == self.subject => {
                Ok(Arc::clone(&self.client))
            }
            Some(_) => Err("the client certificate is not the one in the cluster's kubeconfig"),
        }
    }
}

fn subject(data: &str) -> Option<Vec<u8>> {
    let pem = STANDARD.decode(data.trim()).ok()?;
    authority::subject(&CertificateDer::from_pem_slice(&pem).ok()?)
}

/// Returns the configuration for managers, with a certificate for `host`. Client certificates are optional. If a manager presents
/// one, the cluster's certificate authority must have signed it.
fn server_config(certificate: &[u8], key: &[u8], host: &str) -> Result<Arc<ServerConfig>, String> {
    let certified = authority::certify(certificate, key, host)?;
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok));
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    // HTTP/2 would interleave a connection's responses.
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Without these settings, each cluster's TLS sessions would stay in memory.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns the configurations for the cluster, with and without the kubeconfig's client certificate.
fn client_configs(config: &Config) -> kube::Result<(Arc<ClientConfig>, Arc<ClientConfig>)> {
    let make = |config: &Config| -> kube::Result<Arc<ClientConfig>> {
        let mut tls = config.rustls_client_config()?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.resumption = Resumption::disabled();
        Ok(Arc::new(tls))
    };
    let mut anonymous = config.clone();
    anonymous.auth_info = AuthInfo::default();
    Ok((make(config)?, make(&anonymous)?))
}
