//! The running API server, with a client, accounts and certificates for the programs beside it.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::certs::{StackAuthority, write_pair};
use crate::error::{Error, Result};
use crate::kubeconfig::KubeconfigServer;
use crate::rights;
use crate::stack::{StackIdentity, write_private};
use components::manifest::WebhookEndpoint;

/// The base file name of the CA that signs the API server's client certificate for webhook calls.
const WEBHOOKS: &str = "webhook-client-ca";

pub(crate) struct Authorities {
    /// Signs the certificates of the API server and all webhook servers.
    pub serving: StackAuthority,
    /// Signs the certificates of API server clients.
    pub client: StackAuthority,
    /// Signs the certificates of etcd and its clients: the API server, and the code that deletes policies before the
    /// API server starts.
    pub etcd: StackAuthority,
    /// Signs only the certificate by which webhook servers recognize the API server.
    pub webhooks: StackAuthority,
}

impl Authorities {
    pub(crate) fn open(stack: &StackIdentity) -> Result<Self> {
        let folder = stack.subfolder("pki")?;
        Ok(Self {
            serving: StackAuthority::open(&folder, "serving-ca")?,
            client: StackAuthority::open(&folder, "client-ca")?,
            etcd: StackAuthority::open(&folder, "etcd-ca")?,
            webhooks: StackAuthority::open(&folder, WEBHOOKS)?,
        })
    }
}

/// The API server, with everything that programs beside it need to connect to it.
pub(crate) struct RunningApiServer {
    pub stack: Arc<StackIdentity>,
    pub authorities: Authorities,
    pub server: KubeconfigServer,
    pub client: Client,
    /// The key by which webhook servers recognize the API server in conversion requests. The API server doesn't present
    /// a client certificate in these requests.
    pub conversion_key: String,
}

/// The files by which a webhook server recognizes the API server among the clients that reach its port.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The CA that signed the API server's client certificate.
    pub authority: PathBuf,
    /// The key at the end of conversion paths.
    pub conversion_key: PathBuf,
}

impl RunningApiServer {
    /// Writes the kubeconfig `name` for the ServiceAccount `namespace`/`account`, and returns its path.
    pub(crate) async fn account(&self, name: &str, namespace: &str, account: &str) -> Result<PathBuf> {
        let token = rights::token(&self.client, namespace, account).await?;
        let path = self.stack.subfolder("kubeconfigs")?.join(name);
        write_private(&path, self.server.for_token(name, &token).as_bytes())?;
        Ok(path)
    }

    /// Writes `tls.crt` and `tls.key` for a webhook server, and returns their folder.
    pub(crate) fn webhook_certificate(&self, name: &str) -> Result<PathBuf> {
        let folder = self.stack.subfolder(&format!("webhooks/{name}"))?;
        write_pair(&folder, "tls", &self.authorities.serving.server(name)?)?;
        Ok(folder)
    }

    /// Returns the endpoint of a webhook server on a port. If the server recognizes the API server, conversion paths
    /// include the key.
    pub(crate) fn endpoint(&self, port: u16, is_recognized: bool) -> WebhookEndpoint {
        WebhookEndpoint {
            port,
            ca_bundle: STANDARD.encode(self.authorities.serving.certificate()),
            conversion_key: is_recognized.then(|| self.conversion_key.clone()),
        }
    }

    /// Writes the conversion key, and returns the files by which webhook servers recognize the API server.
    pub(crate) fn caller(&self) -> Result<Caller> {
        let pki = self.stack.subfolder("pki")?;
        let conversion_key = pki.join("conversion.key");
        write_private(&conversion_key, self.conversion_key.as_bytes())?;
        Ok(Caller { authority: pki.join(format!("{WEBHOOKS}.crt")), conversion_key })
    }
}

pub(crate) async fn client(kubeconfig: &str) -> Result<Client> {
    let wrong =
        |reason: String| Error::Manifest { what: "the administrator's kubeconfig".to_owned(), reason };
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| wrong(error.to_string()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| wrong(error.to_string()))?;
    Client::try_from(config).map_err(|error| wrong(error.to_string()))
}
