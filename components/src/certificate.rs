//! Webhook certificates for programs that don't create their own, in clusters without cert-manager.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

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
    pub key: String,
}

/// Generates a certificate for these DNS names, signed by a new CA.
pub fn generate(dns_names: &[String], now: OffsetDateTime) -> Result<ServingPair> {
    let what = dns_names.first().cloned().unwrap_or_default();
    let failed = |source| Error::Certificate { what: what.clone(), source };
    let authority_key = KeyPair::generate().map_err(failed)?;
    let mut authority = params(&format!("{what}-ca"), now);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_pem = authority.self_signed(&authority_key).map_err(failed)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let key = KeyPair::generate().map_err(failed)?;
    let mut server = params(&what, now);
    server.subject_alt_names = CertificateParams::new(dns_names).map_err(failed)?.subject_alt_names;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.use_authority_key_identifier_extension = true;
    let certificate = server.signed_by(&key, &issuer).map_err(failed)?.pem();
    Ok(ServingPair { authority: authority_pem, certificate, key: key.serialize_pem() })
}

fn params(name: &str, now: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // A common name is limited to 64 characters.
    params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    // The node clocks may be slightly behind.
    params.not_before = now - Duration::hours(1);
    params.not_after = now + VALID;
    params
}

/// Returns the expiry time of a PEM certificate, or `None` if the certificate can't be parsed.
pub fn ends(certificate: &str) -> Option<OffsetDateTime> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).ok()?;
    let parsed = pem.parse_x509().ok()?;
    OffsetDateTime::from_unix_timestamp(parsed.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_for_its_names_and_ten_years() {
        let now = OffsetDateTime::now_utc();
        let pair = generate(&["hook.capi-system.svc".to_owned()], now).unwrap();
        let end = ends(&pair.certificate).unwrap();
        assert!((end - now - VALID).abs() < Duration::seconds(2), "{end}");
        let (_, pem) = x509_parser::pem::parse_x509_pem(pair.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(format!("{:?}", names.value.general_names), r#"[DNSName("hook.capi-system.svc")]"#);
        assert!(pair.key.contains("PRIVATE KEY") && pair.authority.contains("BEGIN CERTIFICATE"));
        assert_eq!(ends("nothing"), None);
    }
}
