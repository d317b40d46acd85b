//! Certificate authorities and what they sign. They are the stack's own; nobody else's are trusted.
//!
//! Keys are ECDSA on P-256: made in a millisecond, and accepted for TLS and for ServiceAccount tokens alike.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::error::{Doing, Result};
use crate::stack::write_private;

/// A kept stack must be able to trust itself for as long as its clusters live.
const AUTHORITY_DAYS: i64 = 3650;
/// Certificates are made anew at every start.
const CERTIFICATE_DAYS: i64 = 365;

/// A certificate and its key, both PEM.
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Pair {
    /// Writes `<name>.crt` and `<name>.key`.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        write_private(&folder.join(format!("{name}.key")), self.key.as_bytes())?;
        write_private(&folder.join(format!("{name}.crt")), self.certificate.as_bytes())
    }
}

/// A certificate authority.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Reads the authority `<name>.crt` and `<name>.key` from a folder, or makes it there.
    pub fn open(folder: &Path, name: &str) -> Result<Self> {
        let read = |suffix: &str| fs::read_to_string(folder.join(format!("{name}.{suffix}")));
        let what = || format!("the certificate authority {name}");
        if let (Ok(certificate), Ok(key)) = (read("crt"), read("key")) {
            let key = KeyPair::from_pem(&key).doing(what)?;
            let issuer = Issuer::from_ca_cert_pem(&certificate, key).doing(what)?;
            return Ok(Self { certificate, issuer });
        }
        let key = KeyPair::generate().doing(what)?;
        let mut params = params(&format!("layercake-{name}"), AUTHORITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).doing(what)?.pem();
        let pair = Pair { certificate: certificate.clone(), key: key.serialize_pem() };
        pair.write(folder, name)?;
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// The authority's own certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a server on this machine's loopback address.
    pub fn server(&self, name: &str) -> Result<Pair> {
        let mut params = params(name, CERTIFICATE_DAYS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        for dns in ["localhost", "kubernetes", "kubernetes.default.svc"] {
            let dns =
                rcgen::string::Ia5String::try_from(dns).doing(|| format!("the certificate of {name}"))?;
            params.subject_alt_names.push(SanType::DnsName(dns));
        }
        self.sign(name, &params)
    }

    /// A certificate for a client: Kubernetes reads it as a user in a group.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = params(user, CERTIFICATE_DAYS);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(user, &params)
    }

    /// A certificate for a party that is both: an etcd member.
    pub fn peer(&self, name: &str) -> Result<Pair> {
        let mut params = params(name, CERTIFICATE_DAYS);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        self.sign(name, &params)
    }

    fn sign(&self, name: &str, params: &CertificateParams) -> Result<Pair> {
        let what = || format!("the certificate of {name}");
        let key = KeyPair::generate().doing(what)?;
        let certificate = params.signed_by(&key, &self.issuer).doing(what)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

fn params(name: &str, days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // Clocks of guests and of a resumed stack may be a little behind.
    params.not_before = OffsetDateTime::now_utc() - Duration::hours(1);
    params.not_after = OffsetDateTime::now_utc() + Duration::days(days);
    params.use_authority_key_identifier_extension = true;
    params
}

/// Makes the key that signs ServiceAccount tokens, `<name>.key` and `<name>.pub`, unless it is there.
pub fn signing_key(folder: &Path, name: &str) -> Result<()> {
    let private = folder.join(format!("{name}.key"));
    if private.exists() {
        return Ok(());
    }
    let key = KeyPair::generate().doing(|| format!("the key {name}"))?;
    write_private(&folder.join(format!("{name}.pub")), key.public_key_pem().as_bytes())?;
    write_private(&private, key.serialize_pem().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let first = Authority::open(folder.path(), "ca").unwrap();
        let again = Authority::open(folder.path(), "ca").unwrap();
        assert_eq!(first.certificate(), again.certificate());
        let pair = again.client("admin", Some("system:masters")).unwrap();
        assert!(pair.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(pair.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
