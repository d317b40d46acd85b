//! Uses a cluster's certificate authority to sign the certificate that the proxy presents to managers in place of the API
//! server's certificate.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use time::{Duration, OffsetDateTime};
use x509_parser::parse_x509_certificate;

/// The certificate validity. Connections can outlive their certificate.
const VALID: Duration = Duration::days(1);
/// The time by which a certificate is backdated, because a manager's clock may be behind.
const EARLIER: Duration = Duration::minutes(5);

/// The signature algorithms that are supported for the key of a certificate authority.
static ALGORITHMS: [(SignatureScheme, &SignatureAlgorithm); 4] = [
    (SignatureScheme::RSA_PKCS1_SHA256, &rcgen::PKCS_RSA_SHA256),
    (SignatureScheme::ECDSA_NISTP256_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &rcgen::PKCS_ECDSA_P384_SHA384),
    (SignatureScheme::ED25519, &rcgen::PKCS_ED25519),
];

/// A certificate authority's private key in any format that Go writes. rcgen itself reads only PKCS#8.
struct Key {
    signer: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    algorithm: &'static SignatureAlgorithm,
    /// The public key in the authority's certificate.
    public: Vec<u8>,
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signer = self.signer.choose_scheme(&[self.scheme]).ok_or(rcgen::Error::RemoteKeyError)?;
        signer.sign(message).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

/// Issues a server certificate for `host`. `certificate` and `key` belong to the certificate authority that signs it, and are in
/// PEM.
///
/// # Errors
/// Returns a message that says which part can't be used. The message doesn't quote the key.
pub fn certify(certificate: &[u8], key: &[u8], host: &str) -> Result<CertifiedKey, String> {
    let certificate =
        CertificateDer::from_pem_slice(certificate).map_err(|_| "its tls.crt is not a certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "its tls.key is not a private key")?;
    let key = any_supported_type(&key).map_err(|_| "its tls.key can't be used")?;
    let public = public_key(&certificate).ok_or("its tls.crt can't be read")?;
    let known = ALGORITHMS.iter().find(|(scheme, _)| key.choose_scheme(&[*scheme]).is_some());
    let (scheme, algorithm) = *known.ok_or("its tls.key has an unknown algorithm")?;
    let issuer = Issuer::from_ca_cert_der(&certificate, Key { signer: key, scheme, algorithm, public });
    let issuer = issuer.map_err(|_| "its tls.crt is not an authority's")?;
    sign(host, &issuer).map_err(|error| format!("it can't sign: {error}"))
}

fn sign(host: &str, issuer: &Issuer<'_, Key>) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.subject_alt_names.push(match host.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(host.try_into()?),
    });
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.serial_number =
        Some(SerialNumber::from(rand::random::<[u8; 16]>().map(|byte| byte & 0x7f).to_vec()));
    params.use_authority_key_identifier_extension = true;
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - EARLIER, now + VALID);
    let key = KeyPair::generate()?;
    let signed = params.signed_by(&key, issuer)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok(CertifiedKey::new(vec![signed.der().clone()], any_supported_type(&key.into())?))
}

fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, read) = parse_x509_certificate(certificate).ok()?;
    Some(read.public_key().subject_public_key.data.to_vec())
}

/// Returns a certificate's subject in its DER encoding, or `None` if the certificate can't be parsed.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, read) = parse_x509_certificate(certificate).ok()?;
    Some(read.subject().as_raw().to_vec())
}
