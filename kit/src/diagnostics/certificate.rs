//! A self-signed certificate that is kept in memory. Clients can't verify the certificate. It only prevents
//! tokens from being read in transit.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;

use crate::webhook::bundle::CertBundle;

/// The current certificate, and the time at which it is replaced.
#[derive(Debug)]
pub(super) struct SelfSigned(Mutex<(Arc<CertifiedKey>, OffsetDateTime)>);

impl SelfSigned {
    pub(super) fn generate() -> io::Result<Self> {
        generate(OffsetDateTime::now_utc()).map(|made| Self(Mutex::new(made)))
    }

    fn current(&self, now: OffsetDateTime) -> Arc<CertifiedKey> {
        let mut held = self.0.lock();
        if held.1 <= now {
            match generate(now) {
                Ok(made) => *held = made,
                Err(error) => tracing::warn!(%error, "cannot renew the certificate of the metrics"),
            }
        }
        Arc::clone(&held.0)
    }
}

impl ResolvesServerCert for SelfSigned {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current(OffsetDateTime::now_utc()))
    }
}

fn generate(now: OffsetDateTime) -> io::Result<(Arc<CertifiedKey>, OffsetDateTime)> {
    let bundle = CertBundle::generate(&["localhost".to_owned()], now)?;
    Ok((Arc::new(bundle.certified()?), bundle.due()))
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;

    #[test]
    fn it_is_another_one_before_it_ends() {
        let certificate = SelfSigned::generate().unwrap();
        let now = OffsetDateTime::now_utc();
        let first = certificate.current(now);
        assert_eq!(certificate.current(now + Duration::days(200)).cert, first.cert);
        assert_ne!(certificate.current(now + Duration::days(300)).cert, first.cert);
    }
}
