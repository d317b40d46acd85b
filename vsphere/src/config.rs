//! The client's configuration: the vCenter, the credentials, and the trust settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::{CallMetrics, Error, Kind, Recorder, Result, Thumbprint};

/// The default limit for the response size in bytes. A response about hundreds of VMs takes a few megabytes. If a long
/// poll response exceeds the limit, its content is requested again in smaller parts.
const LONGEST_ANSWER: usize = 32 << 20;

/// The address of a vCenter, the credentials, and the client settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The host name or IP address, which must match the certificate.
    pub host: String,
    /// The HTTPS port, usually 443.
    pub port: u16,
    /// The user name and password.
    pub credentials: Credentials,
    /// The method for verifying the server's certificate.
    pub trust: ServerTrust,
    /// The protocol that carries the VIM API.
    pub wire: WireChoice,
    /// The form in which Automation API calls are sent.
    pub automation: PathStyle,
    /// The maximum time to establish a connection.
    pub connect_timeout: Duration,
    /// The maximum duration of one attempt to send a call.
    pub call_timeout: Duration,
    /// The maximum time that vCenter may hold the long poll. Keep this time below the idle timeout of any proxy in
    /// between.
    pub poll_timeout: Duration,
    /// The additional time after `poll_timeout` before an unanswered long poll counts as hung.
    pub poll_grace: Duration,
    /// The maximum size of a response in bytes.
    pub longest_answer: usize,
    /// The initial limit for concurrent calls, 1 to 64. The client adapts the limit to vCenter's capacity.
    pub width: usize,
    /// The metrics that count calls.
    pub metrics: CallMetrics,
    /// The check that runs right before each change.
    pub guard: ChangeGuard,
    /// Records requests and responses without secrets. Disabled by default.
    pub recorder: Recorder,
}

/// Decides whether changes may still be sent. A program that has lost its leadership must not change vCenter. The
/// default guard allows all changes.
#[derive(Clone, Default)]
pub struct ChangeGuard(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl ChangeGuard {
    /// Creates a guard that allows changes while `may` returns true.
    pub fn new(may: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(may)))
    }

    /// Returns an error if changes are no longer allowed.
    pub(crate) fn check(&self, method: &'static str) -> Result<()> {
        let may = self.0.as_ref().is_none_or(|may| may());
        if may { Ok(()) } else { Err(Error::new(method, Kind::Canceled)) }
    }
}

impl fmt::Debug for ChangeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Guard" } else { "no Guard" })
    }
}

impl Config {
    /// Returns a configuration with port 443, the system's trust anchors, and automatic detection of protocols.
    pub fn new(host: impl Into<String>, username: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self {
            host: host.into(),
            port: 443,
            credentials: Credentials { username: username.into(), password: password.into() },
            trust: ServerTrust::System,
            wire: WireChoice::Auto,
            automation: PathStyle::Auto,
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_mins(1),
            poll_timeout: Duration::from_mins(4),
            poll_grace: Duration::from_secs(30),
            longest_answer: LONGEST_ANSWER,
            width: 24,
            metrics: CallMetrics::default(),
            guard: ChangeGuard::default(),
            recorder: Recorder::default(),
        }
    }

    /// Returns `https://host:port`.
    pub fn base_url(&self) -> String {
        let host = if self.host.contains(':') && !self.host.starts_with('[') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        format!("https://{host}:{}", self.port)
    }
}

/// A user name and its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user name, such as `administrator@vsphere.local`.
    pub username: String,
    /// The password, which is never printed.
    pub password: Secret,
}

/// A string that is never printed, and is wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns the secret itself. Call this only to send the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// The method for verifying the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// The certificate must chain to one of these PEM certificates and match the host.
    CaBundle(String),
    /// The certificate must have this thumbprint. The certificate's issuer, names and validity period are ignored.
    Thumbprint(Thumbprint),
    /// The certificate must chain to a trust anchor of the operating system and match the host.
    System,
    /// The certificate isn't verified. Anyone on the network path can read the password.
    Insecure,
}

/// The protocol that carries the VIM API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireChoice {
    /// VI/JSON if the server supports it (8.0 U1 and later), otherwise SOAP.
    #[default]
    Auto,
    /// Always VI/JSON.
    ViJson,
    /// Always SOAP.
    Soap,
}

/// The form in which Automation API calls are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathStyle {
    /// `/api` if the server supports it, otherwise `/rest`. The first call detects the form.
    #[default]
    Auto,
    /// Always `/api`, which 7.0 introduced.
    Api,
    /// Always `/rest`, which has been deprecated since 7.0 U2 but is still supported.
    Rest,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The type annotation is the assertion.
    #[test]
    fn a_password_is_wiped_from_memory() {
        let Config { credentials: Credentials { password: Secret(text), .. }, .. } =
            Config::new("h", "u", "p");
        let text: Zeroizing<String> = text;
        assert_eq!(*text, "p");
    }
}
