//! The token that Kubernetes creates for an account.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;

/// The type of a Secret in which Kubernetes creates a ServiceAccount token.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation of a token Secret that contains the ServiceAccount's name.
pub const TOKEN_OF: &str = "kubernetes.io/service-account.name";
/// The annotation of a token Secret that contains the ServiceAccount's UID.
pub const TOKEN_OF_UID: &str = "kubernetes.io/service-account.uid";
/// The keys that are copied into the workload cluster's Secret.
const COPIED: [&str; 3] = ["ca.crt", "namespace", "token"];

/// The credentials that a program in the workload cluster needs to access the management cluster.
#[derive(PartialEq)]
pub struct AccountCredentials(BTreeMap<String, ByteString>);

impl fmt::Debug for AccountCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl AccountCredentials {
    /// Returns the credentials in a Secret, or `None` if one of the required keys is missing or empty.
    pub fn of(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let value = |key: &str| data.get(key).filter(|value| !value.0.is_empty()).cloned();
        let copied = COPIED.iter().map(|key| Some(((*key).to_owned(), value(key)?)));
        copied.collect::<Option<_>>().map(Self)
    }

    /// Returns the data for a Secret with these credentials.
    pub fn into_data(self) -> BTreeMap<String, ByteString> {
        self.0
    }
}

/// Returns true if the token Secret was created for this ServiceAccount and isn't being deleted. A Secret of an earlier
/// ServiceAccount with the same name doesn't count.
pub fn is_current(token: &Secret, service_account: &ServiceAccount) -> bool {
    let of = |key: &str| token.annotations().get(key);
    token.type_.as_deref() == Some(TOKEN_TYPE)
        && token.metadata.deletion_timestamp.is_none()
        && of(TOKEN_OF) == service_account.metadata.name.as_ref()
        && of(TOKEN_OF_UID) == service_account.metadata.uid.as_ref()
}
