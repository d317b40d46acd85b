//! The certificates that a program creates for its own webhooks: a certificate authority and a serving certificate. This module
//! performs no I/O.
//!
//! The authority outlives many serving certificates, so a renewal rarely concerns the API server. When the
//! authority is renewed, the bundle keeps the old one too, because replicas switch over one after the other.

use std::collections::BTreeMap;
use std::io;

use pki::{Authority, Subject, Validity, expiry};
use rustls::sign::CertifiedKey;
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use super::mounted::parse_pem;

const AUTHORITY: Life = Life { days: 3650, renewed_before: 730 };
const SERVING: Life = Life { days: 365, renewed_before: 120 };

/// A certificate's lifetime and renewal time.
struct Life {
    /// The lifetime in days.
    days: i64,
    /// The remaining lifetime, in days, at which the certificate is renewed.
    renewed_before: i64,
}

impl Life {
    fn begin(&self, now: OffsetDateTime) -> Validity {
        Validity::new(now, Duration::days(self.days))
    }
}

/// The Secret's content. Private keys are wiped from memory on drop.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CertBundle {
    /// `ca.crt`: the certificates of the trusted authorities in PEM, the current one first.
    pub authorities: String,
    /// `ca.key`: the current authority's private key in PEM.
    pub authority_key: Zeroizing<String>,
    /// `tls.crt`: the serving certificate in PEM.
    pub certificate: String,
    /// `tls.key`: the serving certificate's private key in PEM.
    pub key: Zeroizing<String>,
}

impl CertBundle {
    /// Creates a certificate authority, and a serving certificate for these DNS names.
    pub fn generate(names: &[String], now: OffsetDateTime) -> io::Result<Self> {
        let authority = create_authority(now).map_err(io::Error::other)?;
        let authorities = authority.certificate().to_owned();
        Self::signed(authorities, &authority, names, now).map_err(io::Error::other)
    }

    /// Reads a bundle from a Secret's data. Returns `None` if a key is missing or a value isn't UTF-8.
    pub fn read(data: &BTreeMap<String, Vec<u8>>) -> Option<Self> {
        let text = |key: &str| String::from_utf8(data.get(key)?.clone()).ok();
        Some(Self {
            authorities: text("ca.crt")?,
            authority_key: text("ca.key").map(Zeroizing::new)?,
            certificate: text("tls.crt")?,
            key: text("tls.key").map(Zeroizing::new)?,
        })
    }

    /// Returns the bundle as a Secret's data.
    pub fn data(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([
            ("ca.crt", self.authorities.as_str()),
            ("ca.key", self.authority_key.as_str()),
            ("tls.crt", self.certificate.as_str()),
            ("tls.key", self.key.as_str()),
        ])
    }

    /// Returns the serving certificate with its key.
    pub fn certified(&self) -> io::Result<CertifiedKey> {
        parse_pem(self.certificate.as_bytes(), self.key.as_bytes())
    }

    /// Returns the earliest time at which the authority or the serving certificate must be renewed. The time is in the past if
    /// one of them can't be parsed.
    pub fn due(&self) -> OffsetDateTime {
        let due = |pem: &str, life: &Life| {
            expiry(pem).map_or(OffsetDateTime::UNIX_EPOCH, |end| end - Duration::days(life.renewed_before))
        };
        due(&self.authorities, &AUTHORITY).min(due(&self.certificate, &SERVING))
    }

    /// Creates a new serving certificate. Also creates a new certificate authority if the current one must be renewed or can't be
    /// used.
    pub fn renew(&self, names: &[String], now: OffsetDateTime) -> io::Result<Self> {
        let young =
            expiry(&self.authorities).is_some_and(|end| end - Duration::days(AUTHORITY.renewed_before) > now);
        if let Ok(authority) = Authority::from_pem(&self.authorities, &self.authority_key)
            && young
        {
            return Self::signed(self.authorities.clone(), &authority, names, now).map_err(io::Error::other);
        }
        let new = create_authority(now).map_err(io::Error::other)?;
        let old = first(&self.authorities).unwrap_or_default();
        let authorities = format!("{}{old}", new.certificate());
        Self::signed(authorities, &new, names, now).map_err(io::Error::other)
    }

    fn signed(
        authorities: String,
        authority: &Authority,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<Self, pki::Error> {
        let name = names.first().map_or("webhook", String::as_str);
        let serving = authority.issue(&Subject::server(name, names), SERVING.begin(now))?;
        Ok(Self {
            authorities,
            authority_key: authority.pair().key.clone(),
            certificate: serving.certificate,
            key: serving.key,
        })
    }
}

fn create_authority(now: OffsetDateTime) -> Result<Authority, pki::Error> {
    Authority::generate("webhook authority", AUTHORITY.begin(now))
}

/// Returns the first PEM certificate.
fn first(pem: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let end = pem.find(END)? + END.len();
    pem.get(..end)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    fn names() -> Vec<String> {
        vec!["hook.ns.svc".to_owned(), "hook.ns.svc.cluster.local".to_owned()]
    }

    fn at(days: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap() + Duration::days(days)
    }

    /// Returns true if a client that trusts `authorities` accepts the certificate at this time.
    fn accepted(bundle: &CertBundle, authorities: &str, when: OffsetDateTime) -> bool {
        let mut roots = rustls::RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(root.unwrap()).unwrap();
        }
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(
            std::sync::Arc::new(roots),
            std::sync::Arc::new(rustls::crypto::ring::default_provider()),
        )
        .build()
        .unwrap();
        let shown = CertificateDer::from_pem_slice(bundle.certificate.as_bytes()).unwrap();
        let when = UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            when.unix_timestamp().try_into().unwrap(),
        ));
        rustls::client::danger::ServerCertVerifier::verify_server_cert(
            &*verifier,
            &shown,
            &[],
            &ServerName::try_from("hook.ns.svc").unwrap(),
            &[],
            when,
        )
        .is_ok()
    }

    #[test]
    fn a_certificate_is_accepted_by_who_trusts_its_authority_until_it_ends() {
        let made = CertBundle::generate(&names(), at(0)).unwrap();
        assert!(made.certified().is_ok());
        assert!(accepted(&made, &made.authorities, at(364)));
        assert!(!accepted(&made, &made.authorities, at(366)));
        let other = CertBundle::generate(&names(), at(0)).unwrap();
        assert!(!accepted(&made, &other.authorities, at(1)));
    }

    /// The annotated types are the actual check: keys of type `Zeroizing` are wiped on drop.
    #[test]
    fn private_keys_are_wiped_from_memory() {
        let CertBundle { authorities: _, authority_key, certificate: _, key } =
            CertBundle::generate(&names(), at(0)).unwrap();
        let keys: [Zeroizing<String>; 2] = [authority_key, key];
        assert!(keys.iter().all(|key| key.starts_with("-----BEGIN PRIVATE KEY-----")));
    }

    #[test]
    fn it_is_renewed_well_before_it_ends_and_the_authority_stays() {
        let made = CertBundle::generate(&names(), at(0)).unwrap();
        assert_eq!(made.due(), at(245));
        let renewed = made.renew(&names(), at(245)).unwrap();
        assert_eq!(renewed.authorities, made.authorities);
        assert_eq!(renewed.due(), at(490));
        assert!(accepted(&renewed, &made.authorities, at(400)));
    }

    #[test]
    fn replicas_trust_each_other_while_the_authority_changes() {
        let old = CertBundle::generate(&names(), at(0)).unwrap().renew(&names(), at(2900)).unwrap();
        let new = old.renew(&names(), at(2921)).unwrap();
        assert_ne!(new.authorities, old.authorities);
        assert!(accepted(&old, &new.authorities, at(2922)), "one that still presents the old certificate");
        assert!(accepted(&new, &new.authorities, at(2922)));
        // Only one previous authority is kept.
        let next = new.renew(&names(), at(6000)).unwrap();
        assert_eq!(next.authorities.matches("BEGIN").count(), 2);
    }

    #[test]
    fn it_is_read_back_and_what_is_broken_is_due() {
        let made = CertBundle::generate(&names(), at(0)).unwrap();
        let data = made.data().into_iter().map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
        let mut data: BTreeMap<String, Vec<u8>> = data.collect();
        assert!(CertBundle::read(&data).unwrap() == made);
        data.insert("tls.crt".to_owned(), b"nonsense".to_vec());
        let broken = CertBundle::read(&data).unwrap();
        assert!(broken.due() < at(0) && broken.certified().is_err());
        assert!(accepted(&broken.renew(&names(), at(1)).unwrap(), &made.authorities, at(2)));
        data.remove("ca.key");
        assert!(CertBundle::read(&data).is_none());
    }
}
