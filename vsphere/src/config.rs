//! Which vCenter, as whom, and what makes it trustworthy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::{Error, Kind, Metrics, Recorder, Result, Thumbprint};

/// An answer of hundreds of VMs has some megabytes; one that is longer is asked for in parts.
const LONGEST_ANSWER: usize = 32 << 20;

/// A vCenter and the credentials for it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host name or address, as in the certificate.
    pub host: String,
    /// HTTPS port, 443 as a rule.
    pub port: u16,
    /// Who logs in, and how it is proved.
    pub credentials: Credentials,
    /// How the server's certificate is judged.
    pub trust: Trust,
    /// Which protocol carries the VIM API.
    pub wire: WireChoice,
    /// Which form of the Automation API is used.
    pub automation: PathStyle,
    /// The longest time a connection may take to be made.
    pub connect_timeout: Duration,
    /// The longest time a call may take, without its retries.
    pub call_timeout: Duration,
    /// How long vCenter may hold the long poll; keep it below the idle timeout of any proxy between.
    pub poll_timeout: Duration,
    /// How much later than `poll_timeout` an answer may come; after that the long poll counts as hung.
    pub poll_grace: Duration,
    /// The longest answer that is read, in bytes.
    pub longest_answer: usize,
    /// How many calls may be in flight at first; adapts to what vCenter bears.
    pub width: usize,
    /// Where calls are counted.
    pub metrics: Metrics,
    /// What is asked right before a call that changes something.
    pub guard: Guard,
    /// Keeps what is asked and answered, without secrets; off by default.
    pub recorder: Recorder,
}

/// Says whether changes may still be sent: a program that no longer leads must not make any. Without one they may.
#[derive(Clone, Default)]
pub struct Guard(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Guard {
    /// Changes are sent while `may` is true.
    pub fn new(may: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(may)))
    }

    /// An error where changes may not be sent any more.
    pub(crate) fn check(&self, method: &'static str) -> Result<()> {
        let may = self.0.as_ref().is_none_or(|may| may());
        if may { Ok(()) } else { Err(Error::new(method, Kind::Canceled)) }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Guard" } else { "no Guard" })
    }
}

impl Config {
    /// Port 443, the system's trust anchors, everything else found by asking.
    pub fn new(host: impl Into<String>, username: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self {
            host: host.into(),
            port: 443,
            credentials: Credentials { username: username.into(), password: password.into() },
            trust: Trust::System,
            wire: WireChoice::Auto,
            automation: PathStyle::Auto,
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_mins(1),
            poll_timeout: Duration::from_mins(4),
            poll_grace: Duration::from_secs(30),
            longest_answer: LONGEST_ANSWER,
            width: 24,
            metrics: Metrics::default(),
            guard: Guard::default(),
            recorder: Recorder::default(),
        }
    }

    /// `https://host:port`.
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
    /// Such as `administrator@vsphere.local`.
    pub username: String,
    /// Never printed.
    pub password: Secret,
}

/// Text that is never printed, and wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself, for the one place that sends it.
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

/// How the server's certificate is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It chains to one of these certificates (PEM) and names the host.
    CaBundle(String),
    /// It is exactly this one, whoever signed it and whatever it names.
    Thumbprint(Thumbprint),
    /// It chains to a trust anchor of the operating system and names the host.
    System,
    /// It is not judged. Anyone on the path can read the password.
    Insecure,
}

/// Which protocol carries the VIM API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireChoice {
    /// VI/JSON where the server has it (8.0 U1 and later), else SOAP.
    #[default]
    Auto,
    /// VI/JSON.
    ViJson,
    /// SOAP.
    Soap,
}

/// Which form of the Automation API is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathStyle {
    /// `/api` where the server has it, else `/rest`; the first call finds out.
    #[default]
    Auto,
    /// `/api`, from 7.0 on.
    Api,
    /// `/rest`, deprecated since 7.0 U2 and still served.
    Rest,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The type says so.
    #[test]
    fn a_password_is_wiped_from_memory() {
        let Config { credentials: Credentials { password: Secret(text), .. }, .. } =
            Config::new("h", "u", "p");
        let text: Zeroizing<String> = text;
        assert_eq!(*text, "p");
    }
}
