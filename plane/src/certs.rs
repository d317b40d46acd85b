//! The stack's own CAs and the certificates that they sign. The stack doesn't trust other CAs.
//!
//! Keys are ECDSA on P-256. Such a key takes a millisecond to generate, and works for TLS and for ServiceAccount tokens.

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

/// The validity of a CA certificate. A stack in a kept folder uses its CAs for as long as its clusters live.
const AUTHORITY_DAYS: i64 = 3650;
/// The validity of a certificate. Certificates are reissued at every start.
const CERTIFICATE_DAYS: i64 = 365;

/// A certificate and its private key, both in PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Pair {
    /// Writes `<name>.crt` and `<name>.key`.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        write_private(&folder.join(format!("{name}.key")), self.key.as_bytes())?;
        write_private(&folder.join(format!("{name}.crt")), self.certificate.as_bytes())
    }
}

/// A certificate authority (CA).
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Reads the CA from `<name>.crt` and `<name>.key` in a folder, or creates it there.
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

    /// Returns the CA's own certificate in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues a server certificate for 127.0.0.1, `localhost` and the `kubernetes` Service. `name` is the common name.
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

    /// Issues a client certificate that identifies a user, and the user's group if given, to Kubernetes.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = params(user, CERTIFICATE_DAYS);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(user, &params)
    }

    /// Issues a certificate for an etcd member, which is both server and client, at 127.0.0.1. `name` is the common name.
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
    // The clocks of guests and of a resumed stack may be slightly behind.
    params.not_before = OffsetDateTime::now_utc() - Duration::hours(1);
    params.not_after = OffsetDateTime::now_utc() + Duration::days(days);
    params.use_authority_key_identifier_extension = true;
    params
}

/// Creates the key pair that signs ServiceAccount tokens, `<name>.key` and `<name>.pub`, unless it exists.
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
