//! TLS configurations for test servers.

use pki::{Authority, Pair, Subject, Validity};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Issues a server certificate for these hosts from a new CA. Returns the CA certificate in PEM, and the server's pair.
pub fn issue_certificate(hosts: &[&str]) -> (String, Pair) {
    let validity = Validity::days_from_now(1);
    let authority = Authority::generate("test authority", validity).unwrap();
    let pair = authority.issue(&Subject::server("test server", hosts), validity).unwrap();
    (authority.certificate().to_owned(), pair)
}

/// Returns the configuration for a server with this certificate and key, both in PEM.
pub fn server_config(certificate: &[u8], key: &[u8]) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(certificate).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
}

/// Returns a CA certificate in PEM, and the configuration for a server with a certificate from this CA.
pub fn new_server_config(hosts: &[&str]) -> (String, ServerConfig) {
    let (authority, pair) = issue_certificate(hosts);
    (authority, server_config(pair.certificate.as_bytes(), pair.key.as_bytes()))
}
