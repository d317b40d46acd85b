//! Uses a cluster's certificate authority to sign the certificate that the proxy presents to managers in place of the API
//! server's certificate.

use pki::{Authority, Error, Pair, Subject, Validity};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::parse_x509_certificate;

/// The certificate validity. Connections can outlive their certificate.
const VALID_DAYS: i64 = 1;

/// Issues a server certificate for `host`. `certificate` and `key` belong to the certificate authority that signs it, and are in
/// PEM.
///
/// # Errors
/// Returns a message that says which part can't be used. The message doesn't quote the key.
pub fn certify(certificate: &[u8], key: &[u8], host: &str) -> Result<CertifiedKey, String> {
    let cannot_sign = |error: &dyn std::error::Error| format!("it can't sign: {error}");
    let (certificate, key) = (String::from_utf8_lossy(certificate), String::from_utf8_lossy(key));
    let authority = Authority::from_pem(&certificate, &key).map_err(|error| match error {
        Error::Certificate => "its tls.crt is not a certificate".to_owned(),
        Error::Key => "its tls.key is not a private key of a known algorithm".to_owned(),
        Error::Mismatch => "its tls.key does not belong to its tls.crt".to_owned(),
        Error::Sign(error) => cannot_sign(&error),
    })?;
    let subject = Subject::server("kube-apiserver", &[host]);
    let pair = authority
        .issue(&subject, Validity::days_from_now(VALID_DAYS))
        .map_err(|error| cannot_sign(&error))?;
    read_pair(&pair).map_err(|error| cannot_sign(&*error))
}

fn read_pair(pair: &Pair) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    Ok(CertifiedKey::new(vec![certificate], any_supported_type(&key)?))
}

/// Returns a certificate's subject in its DER encoding, or `None` if the certificate can't be parsed.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, read) = parse_x509_certificate(certificate).ok()?;
    Some(read.subject().as_raw().to_vec())
}
