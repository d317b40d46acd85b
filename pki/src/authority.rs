//! Creates, reads and uses certificate authorities.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::parse_x509_certificate;
use zeroize::Zeroizing;

use crate::key::SigningKey;
use crate::subject::common_name;
use crate::{Error, Pair, Subject, Validity};

/// A certificate authority (CA) and its private key.
pub struct Authority {
    pair: Pair,
    issuer: Issuer<'static, SigningKey>,
}

impl Authority {
    /// Creates a self-signed CA with a new key. It can sign certificates of servers and clients, but not of other CAs.
    ///
    /// # Errors
    /// Returns an error if the certificate can't be encoded.
    pub fn generate(name: &str, validity: Validity) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (validity.begin, validity.end);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Self::from_pem(&certificate, &Zeroizing::new(key.serialize_pem()))
    }

    /// Reads a CA from its certificate and its private key. If `certificate` contains several, the first one counts. The key can
    /// be in PKCS#8, PKCS#1 or SEC 1 format.
    ///
    /// # Errors
    /// Returns an error if the certificate or the key can't be read, or if they don't match.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, Error> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| Error::Certificate)?;
        let (_, parsed) = parse_x509_certificate(&der).map_err(|_| Error::Certificate)?;
        let signing_key = SigningKey::from_pem(key, parsed.public_key())?;
        let issuer = Issuer::from_ca_cert_der(&der, signing_key).map_err(|_| Error::Certificate)?;
        let pair = Pair { certificate: certificate.to_owned(), key: Zeroizing::new(key.to_owned()) };
        Ok(Self { pair, issuer })
    }

    /// Returns the CA's certificate and key.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Returns the CA's certificate in PEM.
    pub fn certificate(&self) -> &str {
        &self.pair.certificate
    }

    /// Generates a key, and issues a certificate for it.
    ///
    /// # Errors
    /// Returns an error if a host is neither an IP address nor a DNS name, or if the CA's key can't sign.
    pub fn issue(&self, subject: &Subject, validity: Validity) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        let certificate = subject.params(validity)?.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair { certificate, key: Zeroizing::new(key.serialize_pem()) })
    }
}
