//! The stack's own CAs and the certificates that they sign. The stack doesn't trust other CAs.

use std::fs;
use std::path::Path;

use pki::{Authority, Pair, Subject, Validity};

use crate::error::{OperationContext, Result};
use crate::stack::write_private;

/// The validity period of a CA certificate. A stack whose folder is kept uses the same CAs for as long as its clusters exist.
const AUTHORITY_DAYS: i64 = 3650;
/// The validity period of other certificates. They are reissued at every start.
const CERTIFICATE_DAYS: i64 = 365;

/// One of the stack's CAs, kept in a folder.
pub struct StackAuthority(Authority);

impl StackAuthority {
    /// Reads the CA from `<name>.crt` and `<name>.key` in a folder, or creates it there.
    pub fn open(folder: &Path, name: &str) -> Result<Self> {
        let read = |suffix: &str| fs::read_to_string(folder.join(format!("{name}.{suffix}")));
        let what = || format!("the certificate authority {name}");
        if let (Ok(certificate), Ok(key)) = (read("crt"), read("key")) {
            return Authority::from_pem(&certificate, &key).doing(what).map(Self);
        }
        let validity = Validity::days_from_now(AUTHORITY_DAYS);
        let authority = Authority::generate(&format!("layercake-{name}"), validity).doing(what)?;
        write_pair(folder, name, authority.pair())?;
        Ok(Self(authority))
    }

    /// Returns the CA's own certificate in PEM.
    pub fn certificate(&self) -> &str {
        self.0.certificate()
    }

    /// Issues a server certificate for 127.0.0.1, `localhost` and the `kubernetes` Service. `name` is the common name.
    pub fn server(&self, name: &str) -> Result<Pair> {
        let hosts = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"];
        self.issue(name, &Subject::server(name, &hosts))
    }

    /// Issues a client certificate that identifies a user, and the user's group if given, to Kubernetes.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        self.issue(user, &Subject::client(user, group.as_slice()))
    }

    /// Issues a certificate for an etcd member at 127.0.0.1. `name` is the common name.
    pub fn peer(&self, name: &str) -> Result<Pair> {
        self.issue(name, &Subject::peer(name, &["127.0.0.1"]))
    }

    fn issue(&self, name: &str, subject: &Subject) -> Result<Pair> {
        let validity = Validity::days_from_now(CERTIFICATE_DAYS);
        self.0.issue(subject, validity).doing(|| format!("the certificate of {name}"))
    }
}

/// Writes a pair to `<name>.crt` and `<name>.key`.
pub fn write_pair(folder: &Path, name: &str, pair: &Pair) -> Result<()> {
    write_private(&folder.join(format!("{name}.key")), pair.key.as_bytes())?;
    write_private(&folder.join(format!("{name}.crt")), pair.certificate.as_bytes())
}

/// Creates the key pair that signs ServiceAccount tokens, `<name>.key` and `<name>.pub`, unless it exists.
pub fn signing_key(folder: &Path, name: &str) -> Result<()> {
    let private = folder.join(format!("{name}.key"));
    if private.exists() {
        return Ok(());
    }
    let (public, key) = pki::generate_key().doing(|| format!("the key {name}"))?;
    write_private(&folder.join(format!("{name}.pub")), public.as_bytes())?;
    write_private(&private, key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let first = StackAuthority::open(folder.path(), "ca").unwrap();
        let again = StackAuthority::open(folder.path(), "ca").unwrap();
        assert_eq!(first.certificate(), again.certificate());
        let pair = again.client("admin", Some("system:masters")).unwrap();
        assert!(pair.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(pair.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
