//! Cluster certificates: the CAs that Cluster API writes to the disk, and the leaf certificates that kubeadm signs with
//! them.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType,
};
use sha2::{Digest, Sha256};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::disk::Disk;
use super::failure::{Failure, Reason};

/// A certificate and its private key in PEM format.
#[derive(Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority (CA) on the guest's disk.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A leaf certificate's subject and usages.
pub struct Purpose<'a> {
    pub name: &'a str,
    /// The organizations, which Kubernetes uses as group names.
    pub groups: &'a [&'a str],
    /// The server's DNS names and IP addresses.
    pub hosts: &'a [String],
    /// True for server authentication.
    pub server: bool,
    /// True for client authentication.
    pub client: bool,
}

impl<'a> Purpose<'a> {
    /// Returns the purpose for a client certificate.
    pub fn client(name: &'a str, groups: &'a [&'a str]) -> Self {
        Self { name, groups, hosts: &[], server: false, client: true }
    }

    /// Returns the purpose for a server certificate.
    pub fn server(name: &'a str, hosts: &'a [String]) -> Self {
        Self { name, groups: &[], hosts, server: true, client: false }
    }

    /// Returns the purpose for an etcd member's certificate, which allows both server and client authentication.
    pub fn peer(name: &'a str, hosts: &'a [String]) -> Self {
        Self { client: true, ..Self::server(name, hosts) }
    }

    fn params(&self) -> Result<CertificateParams, Failure> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.name);
        for group in self.groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        for host in self.hosts {
            let name = match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => {
                    SanType::DnsName(host.as_str().try_into().map_err(|error| unusable("host name", &error))?)
                }
            };
            params.subject_alt_names.push(name);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        if self.server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if self.client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        Ok(params)
    }
}

impl Authority {
    /// Reads `NAME.crt` and `NAME.key` from a folder, and checks that they match.
    pub fn read(disk: &Disk, folder: &str, name: &str) -> Result<Self, Failure> {
        let certificate = required(disk, &format!("{folder}/{name}.crt"))?;
        let key = required(disk, &format!("{folder}/{name}.key"))?;
        let key = private_key(&key).map_err(|failure| within(&format!("{folder}/{name}.key"), &failure))?;
        if public_key(&certificate).map_err(|failure| within(&format!("{folder}/{name}.crt"), &failure))?
            != key.subject_public_key_info()
        {
            let message = format!("{folder}/{name}.key is not the key of {name}.crt");
            return Err(Failure::new(Reason::Certificate, message));
        }
        let issuer = Issuer::from_ca_cert_pem(&certificate, key)
            .map_err(|error| unusable("CA certificate", &error))?;
        Ok(Self { certificate, issuer })
    }

    /// Returns the CA certificate in PEM format.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Signs a certificate for a new key. The certificate is valid for one year, like kubeadm's certificates.
    pub fn sign(&self, purpose: &Purpose<'_>) -> Result<Leaf, Failure> {
        let mut params = purpose.params()?;
        params.not_before = OffsetDateTime::now_utc() - Duration::minutes(5);
        params.not_after = OffsetDateTime::now_utc() + Duration::days(365);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(|error| unusable("key", &error))?;
        let certificate =
            params.signed_by(&key, &self.issuer).map_err(|error| unusable("signature", &error))?;
        Ok(Leaf { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Leaf {
    /// Writes `NAME.crt` and `NAME.key` to a folder.
    pub fn write(&self, disk: &Disk, folder: &str, name: &str) -> Result<(), Failure> {
        disk.write(&format!("{folder}/{name}.crt"), &self.certificate)?;
        disk.write(&format!("{folder}/{name}.key"), &self.key)
    }
}

/// Creates a key and a signing request for a client certificate. Returns `(request, key)` in PEM format.
pub fn request(purpose: &Purpose<'_>) -> Result<(String, String), Failure> {
    let key = KeyPair::generate().map_err(|error| unusable("key", &error))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = purpose.params()?.distinguished_name;
    let request = params.serialize_request(&key).map_err(|error| unusable("certificate request", &error))?;
    let pem = request.pem().map_err(|error| unusable("certificate request", &error))?;
    Ok((pem, key.serialize_pem()))
}

/// Checks that the service account keys exist and match.
pub fn check_service_account_keys(disk: &Disk, folder: &str) -> Result<(), Failure> {
    let (public, private) =
        (required(disk, &format!("{folder}/sa.pub"))?, required(disk, &format!("{folder}/sa.key"))?);
    let key = private_key(&private).map_err(|failure| within(&format!("{folder}/sa.key"), &failure))?;
    let (_, public) = decode(&public).ok_or_else(|| unusable("sa.pub", &"no PEM"))?;
    if public == key.subject_public_key_info() {
        return Ok(());
    }
    Err(Failure::new(Reason::Certificate, format!("{folder}/sa.key is not the key of sa.pub")))
}

/// Returns kubeadm's pin for a CA: `sha256:` and the hexadecimal SHA-256 hash of the CA's public key.
pub fn pin(ca_pem: &str) -> Result<String, Failure> {
    let digest = Sha256::digest(public_key(ca_pem)?);
    Ok(digest.iter().fold("sha256:".to_owned(), |pin, byte| pin + &format!("{byte:02x}")))
}

/// Returns the certificate in DER format.
pub fn der(certificate_pem: &str) -> Result<Vec<u8>, Failure> {
    decode(certificate_pem).map(|(_, der)| der).ok_or_else(|| unusable("certificate", &"no PEM"))
}

fn required(disk: &Disk, path: &str) -> Result<String, Failure> {
    disk.read(path)
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| Failure::new(Reason::CertificateMissing, format!("{path} is missing or empty")))
}

fn unusable(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Reason::Certificate, format!("{what}: {error}"))
}

fn within(path: &str, failure: &Failure) -> Failure {
    Failure::new(failure.reason, format!("{path}: {}", failure.message))
}

/// Returns the SubjectPublicKeyInfo of a certificate.
fn public_key(certificate_pem: &str) -> Result<Vec<u8>, Failure> {
    let der = der(certificate_pem)?;
    let (_, certificate) =
        X509Certificate::from_der(&der).map_err(|_| unusable("certificate", &"not X.509"))?;
    Ok(certificate.public_key().raw.to_vec())
}

/// Returns the label and content of the first PEM block, or `None` if there isn't a valid block.
fn decode(pem: &str) -> Option<(String, Vec<u8>)> {
    let start = pem.find("-----BEGIN ")? + "-----BEGIN ".len();
    let (label, rest) = pem[start..].split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let compact: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    Some((label.to_owned(), STANDARD.decode(compact).ok()?))
}

/// Parses an RSA key in PKCS#1 format, an EC key (P-256 or P-384) in SEC 1 format, or any key in PKCS#8 format.
fn private_key(pem: &str) -> Result<KeyPair, Failure> {
    let wrong = |what: &str| unusable("private key", &what);
    let (label, der) = decode(pem).ok_or_else(|| wrong("no PEM"))?;
    let candidates = match label.as_str() {
        "RSA PRIVATE KEY" => vec![pkcs8(&RSA, &der)],
        // ring reads the curve only from the PKCS#8 header, so try both curves.
        "EC PRIVATE KEY" => vec![pkcs8(&P256, &der), pkcs8(&P384, &der)],
        "PRIVATE KEY" => vec![der],
        _ => return Err(wrong("of an unknown form")),
    };
    candidates.into_iter().find_map(|der| KeyPair::try_from(der).ok()).ok_or_else(|| wrong("not readable"))
}

/// The RSA AlgorithmIdentifier.
const RSA: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The AlgorithmIdentifier for ECDSA with P-256.
const P256: [u8; 21] = [
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
/// The AlgorithmIdentifier for ECDSA with P-384.
const P384: [u8; 18] = [
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22,
];

/// Wraps a PKCS#1 or SEC 1 key into PKCS#8, the only format that ring reads.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let version = [0x02, 0x01, 0x00];
    element(0x30, &[version.as_slice(), algorithm, &element(0x04, key)].concat())
}

/// Encodes one DER element.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut der = vec![tag];
    match length {
        [] => der.push(0),
        [short @ 0..=0x7f] => der.push(*short),
        long => {
            der.push(0x80 | u8::try_from(long.len()).unwrap_or(u8::MAX));
            der.extend(long);
        }
    }
    der.extend(content);
    der
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::sample;

    #[test]
    fn lengths_are_written_as_der_wants_them() {
        assert_eq!(element(4, &[]), [4, 0]);
        assert_eq!(element(4, &[1, 2]), [4, 2, 1, 2]);
        assert_eq!(element(4, &[0; 200])[..3], [4, 0x81, 200]);
        assert_eq!(element(4, &[0; 300])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn a_leaf_chains_to_its_authority() {
        let (_folder, disk) = sample::disk();
        let pki = sample::Pki::generate();
        for (path, content) in pki.files() {
            disk.write(&path, content).unwrap();
        }
        let authority = Authority::read(&disk, "/etc/kubernetes/pki", "ca").unwrap();
        let hosts = ["cp-0".to_owned(), "127.0.0.1".to_owned()];
        let leaf = authority.sign(&Purpose::server("kube-apiserver", &hosts)).unwrap();
        let (ca, leaf) = (der(authority.certificate()).unwrap(), der(&leaf.certificate).unwrap());
        let (_, ca) = X509Certificate::from_der(&ca).unwrap();
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        leaf.verify_signature(Some(ca.public_key())).unwrap();
        assert_eq!(leaf.subject().to_string(), "CN=kube-apiserver");
        check_service_account_keys(&disk, "/etc/kubernetes/pki").unwrap();
        assert_eq!(pin(&pki.ca.0).unwrap().len(), "sha256:".len() + 64);
    }

    #[test]
    fn what_is_missing_or_mixed_up_has_a_reason() {
        let (_folder, disk) = sample::disk();
        let (one, other) = (sample::Pki::generate(), sample::Pki::generate());
        let read = || Authority::read(&disk, "/p", "ca").map(drop).map_err(|failure| failure.reason);
        assert_eq!(read(), Err(Reason::CertificateMissing));
        disk.write("/p/ca.crt", &one.ca.0).unwrap();
        disk.write("/p/ca.key", "").unwrap();
        assert_eq!(read(), Err(Reason::CertificateMissing));
        disk.write("/p/ca.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
        assert_eq!(read(), Err(Reason::Certificate));
        disk.write("/p/ca.key", &other.ca.1).unwrap();
        assert_eq!(read(), Err(Reason::Certificate));
        disk.write("/p/ca.key", &one.ca.1).unwrap();
        assert_eq!(read(), Ok(()));
        disk.write("/p/sa.pub", &one.sa.0).unwrap();
        disk.write("/p/sa.key", &other.sa.1).unwrap();
        assert_eq!(check_service_account_keys(&disk, "/p").unwrap_err().reason, Reason::Certificate);
    }
}
