//! Reads a server's certificate without verifying it.

use jiff::Timestamp;
use reqwest::redirect::Policy;
use reqwest::tls::TlsInfo;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::unexpected;
use crate::http::root_cause;
use crate::tls::{self, SeenThumbprint};
use crate::{Config, Error, Kind, Result, ServerTrust, Thumbprint};

/// The certificate properties that an administrator checks before they trust a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The SHA-256 thumbprint.
    pub thumbprint: Thumbprint,
    /// The subject distinguished name.
    pub subject: String,
    /// The end of the validity period.
    pub not_after: Timestamp,
}

impl ShownCertificate {
    /// Reads the certificate of the server in `config`. Doesn't verify it and doesn't log in.
    pub async fn of(config: &Config) -> Result<Self> {
        const METHOD: &str = "connect";
        let base = config.base_url();
        let failed = |cause: String| Error::new(METHOD, Kind::Unreachable { cause }).on(&base);
        let tls = tls::client_config(&ServerTrust::Insecure, SeenThumbprint::default()).map_err(failed)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .tls_info(true)
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(config.connect_timeout)
            .timeout(config.call_timeout)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let answer = client.head(&base).send().await.map_err(|error| failed(root_cause(&error)))?;
        let der = answer.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate);
        let der = der.ok_or_else(|| unexpected(METHOD, "the server showed no certificate"))?;
        Self::read(der).ok_or_else(|| unexpected(METHOD, "the server's certificate cannot be read"))
    }

    fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(Self {
            thumbprint: Thumbprint::of(der),
            subject: certificate.subject().to_string(),
            not_after: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?,
        })
    }
}
