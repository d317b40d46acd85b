//! Cluster certificates: the CAs that Cluster API writes to the disk, and the leaf certificates that kubeadm signs with
//! them.

use pki::{Authority, Pair, Subject, Validity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::disk::Disk;
use super::failure::{Failure, Reason};

/// The validity of leaf certificates, which is the same as in kubeadm.
const LEAF_DAYS: i64 = 365;

/// Reads a CA from `NAME.crt` and `NAME.key` in a folder, and checks that they match.
pub fn read_authority(disk: &Disk, folder: &str, name: &str) -> Result<Authority, Failure> {
    let certificate = required(disk, &format!("{folder}/{name}.crt"))?;
    let key = required(disk, &format!("{folder}/{name}.key"))?;
    Authority::from_pem(&certificate, &key).map_err(|error| {
        let suffix = if matches!(error, pki::Error::Certificate) { "crt" } else { "key" };
        unusable(&format!("{folder}/{name}.{suffix}"), &error)
    })
}

/// Issues a certificate with a new key.
pub fn issue(authority: &Authority, subject: &Subject) -> Result<Pair, Failure> {
    let issued = authority.issue(subject, Validity::days_from_now(LEAF_DAYS));
    issued.map_err(|error| unusable("certificate", &error))
}

/// Writes `NAME.crt` and `NAME.key` to a folder.
pub fn write_pair(disk: &Disk, folder: &str, name: &str, pair: &Pair) -> Result<(), Failure> {
    disk.write(&format!("{folder}/{name}.crt"), &pair.certificate)?;
    disk.write(&format!("{folder}/{name}.key"), &*pair.key)
}

/// Checks that the service account keys exist and match.
pub fn check_service_account_keys(disk: &Disk, folder: &str) -> Result<(), Failure> {
    let (public, private) =
        (required(disk, &format!("{folder}/sa.pub"))?, required(disk, &format!("{folder}/sa.key"))?);
    let key = pki::public_key(&private).map_err(|error| unusable(&format!("{folder}/sa.key"), &error))?;
    let public = SubjectPublicKeyInfoDer::from_pem_slice(public.as_bytes())
        .map_err(|_| unusable(&format!("{folder}/sa.pub"), &"not a public key in PEM"))?;
    if *public == *key {
        return Ok(());
    }
    Err(Failure::new(Reason::Certificate, format!("{folder}/sa.key is not the key of sa.pub")))
}

/// Returns kubeadm's pin for a CA: `sha256:` and the hexadecimal SHA-256 hash of the CA's public key.
pub fn pin(ca_pem: &str) -> Result<String, Failure> {
    let der = der(ca_pem)?;
    let (_, certificate) =
        X509Certificate::from_der(&der).map_err(|_| unusable("certificate", &"not X.509"))?;
    let digest = Sha256::digest(certificate.public_key().raw);
    Ok(digest.iter().fold("sha256:".to_owned(), |pin, byte| pin + &format!("{byte:02x}")))
}

/// Returns the certificate in DER format.
pub fn der(certificate_pem: &str) -> Result<CertificateDer<'static>, Failure> {
    CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(|_| unusable("certificate", &"no PEM"))
}

fn required(disk: &Disk, path: &str) -> Result<String, Failure> {
    disk.read(path)
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| Failure::new(Reason::CertificateMissing, format!("{path} is missing or empty")))
}

/// Creates the failure for a certificate or key that can't be used.
pub(super) fn unusable(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Reason::Certificate, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::sample;

    #[test]
    fn a_leaf_chains_to_its_authority() {
        let (_folder, disk) = sample::disk();
        let pki = sample::Pki::generate();
        for (path, content) in pki.files() {
            disk.write(&path, content).unwrap();
        }
        let authority = read_authority(&disk, "/etc/kubernetes/pki", "ca").unwrap();
        let hosts = ["cp-0".to_owned(), "127.0.0.1".to_owned()];
        let leaf = issue(&authority, &Subject::server("kube-apiserver", &hosts)).unwrap();
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
        let read = || read_authority(&disk, "/p", "ca").map(drop).map_err(|failure| failure.reason);
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
