//! Reads private keys in any common format, and generates new ones.

use std::sync::Arc;

use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use crate::Error;

/// The signature algorithms for an authority's key.
static ALGORITHMS: [(SignatureScheme, &SignatureAlgorithm); 4] = [
    (SignatureScheme::RSA_PKCS1_SHA256, &rcgen::PKCS_RSA_SHA256),
    (SignatureScheme::ECDSA_NISTP256_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &rcgen::PKCS_ECDSA_P384_SHA384),
    (SignatureScheme::ED25519, &rcgen::PKCS_ED25519),
];

/// An authority's private key. rustls reads PKCS#8, PKCS#1 and SEC 1. rcgen's own keys read only PKCS#8.
pub(crate) struct SigningKey {
    signer: Arc<dyn rustls::sign::SigningKey>,
    scheme: SignatureScheme,
    algorithm: &'static SignatureAlgorithm,
    /// The public key in the authority's certificate.
    public: Vec<u8>,
}

impl SigningKey {
    /// Reads a private key, which must belong to the public key in the authority's certificate.
    pub(crate) fn from_pem(pem: &str, certified: &SubjectPublicKeyInfo<'_>) -> Result<Self, Error> {
        let signer = read(pem)?;
        if signer.public_key().ok_or(Error::Key)?.as_ref() != certified.raw {
            return Err(Error::Mismatch);
        }
        let known = ALGORITHMS.iter().find(|(scheme, _)| signer.choose_scheme(&[*scheme]).is_some());
        let (scheme, algorithm) = *known.ok_or(Error::Key)?;
        Ok(Self { signer, scheme, algorithm, public: certified.subject_public_key.data.to_vec() })
    }
}

impl PublicKeyData for SigningKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl rcgen::SigningKey for SigningKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signer = self.signer.choose_scheme(&[self.scheme]).ok_or(rcgen::Error::RemoteKeyError)?;
        signer.sign(message).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

/// Generates a key. Returns the public and the private key in PEM.
///
/// # Errors
/// Returns an error if the system doesn't provide random numbers.
pub fn generate_key() -> Result<(String, Zeroizing<String>), Error> {
    let key = KeyPair::generate()?;
    Ok((key.public_key_pem(), Zeroizing::new(key.serialize_pem())))
}

/// Returns the SubjectPublicKeyInfo, in DER, of a private key in PEM.
///
/// # Errors
/// Returns an error if the key can't be read.
pub fn public_key(private_key: &str) -> Result<Vec<u8>, Error> {
    Ok(read(private_key)?.public_key().ok_or(Error::Key)?.to_vec())
}

fn read(pem: &str) -> Result<Arc<dyn rustls::sign::SigningKey>, Error> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| Error::Key)?;
    any_supported_type(&der).map_err(|_| Error::Key)
}
