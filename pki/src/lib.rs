//! Creates X.509 certificates: certificate authorities ([`Authority`]), the certificates that they sign ([`Subject`]), and
//! signing requests.
//!
//! New keys are ECDSA keys on P-256: TLS and ServiceAccount tokens support them, and generating one takes a millisecond. An
//! authority can also sign with an existing key of another type. The crate doesn't read or write files. Private keys are wiped
//! from memory on drop, and no error quotes one.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod authority;
mod key;
mod subject;

use time::{Duration, OffsetDateTime};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;
use zeroize::Zeroizing;

pub use authority::Authority;
pub use key::{generate_key, public_key};
pub use subject::Subject;

/// The time by which certificates are backdated, because the clock of a machine that checks them may be behind.
const BACKDATED: Duration = Duration::hours(1);

/// The reasons why a certificate or key can't be created or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the certificate is not an X.509 certificate in PEM")]
    Certificate,
    #[error("the private key is not an RSA, ECDSA or Ed25519 key in PEM")]
    Key,
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// A certificate can't be encoded or signed, for example because a host name contains invalid characters.
    #[error(transparent)]
    Sign(#[from] rcgen::Error),
}

/// A certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: Zeroizing<String>,
}

/// The period in which a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    begin: OffsetDateTime,
    end: OffsetDateTime,
}

impl Validity {
    /// Returns the period from shortly before `now` until `length` after `now`.
    pub fn new(now: OffsetDateTime, length: Duration) -> Self {
        Self { begin: now - BACKDATED, end: now + length }
    }

    /// Returns the period from shortly before the current time until `days` days from now.
    pub fn days_from_now(days: i64) -> Self {
        Self::new(OffsetDateTime::now_utc(), Duration::days(days))
    }
}

/// Returns the expiry time of the first certificate in `pem`, or `None` if it can't be parsed.
pub fn expiry(pem: &str) -> Option<OffsetDateTime> {
    let block = Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?;
    let (_, certificate) = parse_x509_certificate(&block.contents).ok()?;
    Some(certificate.validity().not_after.to_datetime())
}

#[cfg(test)]
mod tests;
