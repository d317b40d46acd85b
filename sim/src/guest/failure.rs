//! The reasons why a guest didn't become a node. Messages may be printed, so they never contain secrets or user data.

use std::fmt;

/// The reason why a boot failed. Tests match on it, so variants are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// `guestinfo.metadata` is missing, so cloud-init doesn't find a datasource.
    NoDatasource,
    /// User data is missing, so the VM runs without becoming a node.
    NoUserdata,
    /// A guestinfo value doesn't match its declared encoding.
    Encoding,
    /// The metadata isn't a mapping, or lacks a value that a node needs.
    Metadata,
    /// The user data isn't a cloud-config.
    UserdataFormat,
    /// The template uses a variable that is not set (`CI_MISSING_JINJA_VAR`).
    TemplateVariable,
    /// The template can't be rendered.
    Template,
    /// The cloud-config isn't valid YAML, or a value has the wrong type.
    CloudConfig,
    /// The cloud-config contains a key that cloud-init doesn't know.
    UnknownKey,
    /// A file from the cloud-config can't be written.
    WriteFile,
    /// A command doesn't exist on node images.
    UnknownCommand,
    /// A command failed.
    Command,
    /// An additional disk is missing, or can't be formatted or mounted in time.
    Disk,
    /// A kubeadm preflight check failed.
    Preflight,
    /// No command called kubeadm, so the VM runs but isn't a node.
    KubeadmNotRun,
    /// A static Pod can't run.
    StaticPod,
    /// kubeadm's configuration is missing or invalid.
    KubeadmConfig,
    /// kubeadm's configuration doesn't match the image's Kubernetes release.
    Version,
    /// A cluster certificate or key is missing or empty.
    CertificateMissing,
    /// A certificate or key is unusable, or the two don't match.
    Certificate,
    /// etcd didn't start, or the node couldn't join it.
    Etcd,
    /// kube-apiserver didn't become ready.
    ApiServer,
    /// Cluster discovery with the bootstrap token failed.
    Discovery,
    /// The cluster CA doesn't match the hash that the configuration pins.
    CaHash,
    /// The API server rejects the bootstrap token.
    BootstrapToken,
    /// The node couldn't get its certificate or register itself.
    Registration,
    /// The host that runs the guest failed, for example with an I/O error.
    Host,
}

impl Reason {
    /// Returns true if the VM works and just isn't a Kubernetes node.
    pub fn is_plain_vm(self) -> bool {
        matches!(self, Self::NoDatasource | Self::NoUserdata | Self::KubeadmNotRun)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An error that kept a guest from becoming a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Failure {
    /// The failure category.
    pub reason: Reason,
    /// The affected item and the problem.
    pub message: String,
    is_final: bool,
}

impl Failure {
    /// Creates a failure that may be retried.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_final: false }
    }

    /// Creates the failure of a kubeadm preflight check, such as `Port-10259` or `ImagePull`. Tests inject such
    /// failures.
    pub fn preflight(check: &str, found: &str) -> Self {
        Self::new(Reason::Preflight, format!("[ERROR {check}]: {found}"))
    }

    /// Marks the failure as final, because retrying doesn't help.
    #[must_use]
    pub(super) fn for_good(self) -> Self {
        Self { is_final: true, ..self }
    }

    pub(super) fn is_final(&self) -> bool {
        self.is_final
    }

    /// Creates a host failure, such as a file, process or port error.
    pub fn host(doing: &str, error: &dyn fmt::Display) -> Self {
        Self::new(Reason::Host, format!("{doing}: {error}"))
    }
}

/// Returns the API server's message and status code, without the object that the error is about.
pub(super) fn api_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// Returns a serde error message without the value that caused it.
///
/// Field names aren't secret, but cloud-init values are.
pub(super) fn without_values(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let named =
        ["unknown field", "missing field", "duplicate field", "duplicate mapping key", "unknown variant"];
    if named.iter().any(|start| first.contains(start)) {
        return first.to_owned();
    }
    match first.split_once(", expected ") {
        Some((_, expected)) => format!("a value of the wrong type, expected {expected}"),
        None => "not readable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_repeated() {
        let shown = without_values("invalid type: string \"s3cret\", expected a sequence at line 3");
        assert_eq!(shown, "a value of the wrong type, expected a sequence at line 3");
        assert_eq!(without_values("scanner error near s3cret"), "not readable");
        assert!(without_values("unknown field `clusterNam`, expected one of `x`").contains("clusterNam"));
    }
}
