//! Webhook certificates for programs that don't create their own, in clusters without cert-manager.

use pki::{Authority, Subject, Validity};
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// The certificate validity. A certificate can't be renewed, because the key of the CA that signed it is discarded.
pub const VALID: Duration = Duration::days(3650);
/// The remaining validity below which `init` replaces a certificate.
pub const RENEWED_BEFORE: Duration = Duration::days(365);

/// A webhook server certificate with its key and the certificate of the CA that signed it, all in PEM.
pub struct ServingPair {
    /// The certificate of the CA that signed `certificate`. The CA's key no longer exists.
    pub authority: String,
    pub certificate: String,
    pub key: Zeroizing<String>,
}

/// Generates a certificate for these DNS names, signed by a new CA.
pub fn generate(dns_names: &[String], now: OffsetDateTime) -> Result<ServingPair> {
    let name = dns_names.first().map_or("", String::as_str);
    let failed = |source| Error::Certificate { what: name.to_owned(), source };
    let validity = Validity::new(now, VALID);
    let authority = Authority::generate(&format!("{name}-ca"), validity).map_err(failed)?;
    let pair = authority.issue(&Subject::server(name, dns_names), validity).map_err(failed)?;
    let authority = authority.certificate().to_owned();
    Ok(ServingPair { authority, certificate: pair.certificate, key: pair.key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_for_its_names_and_ten_years() {
        let now = OffsetDateTime::now_utc();
        let pair = generate(&["hook.capi-system.svc".to_owned()], now).unwrap();
        let end = pki::expiry(&pair.certificate).unwrap();
        assert!((end - now - VALID).abs() < Duration::seconds(2), "{end}");
        let (_, pem) = x509_parser::pem::parse_x509_pem(pair.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(format!("{:?}", names.value.general_names), r#"[DNSName("hook.capi-system.svc")]"#);
        assert!(pair.key.contains("PRIVATE KEY") && pair.authority.contains("BEGIN CERTIFICATE"));
    }
}
