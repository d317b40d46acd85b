//! The token that Kubernetes makes for an account, and whether it is this account's.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;

/// Type of a Secret for which Kubernetes makes a token.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Annotation of such a Secret: the ServiceAccount.
pub const TOKEN_OF: &str = "kubernetes.io/service-account.name";
/// Annotation of such a Secret: which of that name.
pub const TOKEN_OF_UID: &str = "kubernetes.io/service-account.uid";
/// The keys of the token's Secret that are copied into the guest.
const COPIED: [&str; 3] = ["ca.crt", "namespace", "token"];

/// What a program in the guest needs to reach the management cluster.
#[derive(PartialEq)]
pub struct Credentials(BTreeMap<String, ByteString>);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Those in a Secret, if all of them are there.
    pub fn of(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let value = |key: &str| data.get(key).filter(|value| !value.0.is_empty()).cloned();
        let copied = COPIED.iter().map(|key| Some(((*key).to_owned(), value(key)?)));
        copied.collect::<Option<_>>().map(Self)
    }

    /// The data of a Secret that has them.
    pub fn into_data(self) -> BTreeMap<String, ByteString> {
        self.0
    }
}

/// Whether a Secret holds the token of this very ServiceAccount, and no former one's.
pub fn is_current(token: &Secret, service_account: &ServiceAccount) -> bool {
    let of = |key: &str| token.annotations().get(key);
    token.type_.as_deref() == Some(TOKEN_TYPE)
        && token.metadata.deletion_timestamp.is_none()
        && of(TOKEN_OF) == service_account.metadata.name.as_ref()
        && of(TOKEN_OF_UID) == service_account.metadata.uid.as_ref()
}
