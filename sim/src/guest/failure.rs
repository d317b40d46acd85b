//! Why a guest did not become a node, in words that may be printed: never a secret, never the user data's text.

use std::fmt;

/// The stage at which a boot ended, stable enough for a story to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// There is no `guestinfo.metadata`: cloud-init finds no datasource.
    NoDatasource,
    /// There is no user data: a plain VM.
    NoUserdata,
    /// A guestinfo value is not what its encoding says.
    Encoding,
    /// The metadata is no mapping, or lacks what a node needs.
    Metadata,
    /// The user data is no cloud-config.
    UserdataFormat,
    /// The template uses a variable that is not set (`CI_MISSING_JINJA_VAR`).
    TemplateVariable,
    /// The template can't be rendered.
    Template,
    /// The cloud-config is no YAML, or a value has the wrong shape.
    CloudConfig,
    /// The cloud-config has a key that cloud-init does not know.
    UnknownKey,
    /// A file of the cloud-config can't be written.
    WriteFile,
    /// A command is none that a node image has.
    UnknownCommand,
    /// A command failed.
    Command,
    /// A further disk is not there, or can't be formatted or mounted in time.
    Disk,
    /// kubeadm's checks before it begins.
    Preflight,
    /// No command called kubeadm: the VM runs, and is no node.
    KubeadmNotRun,
    /// A static pod can't run.
    StaticPod,
    /// kubeadm's configuration is missing or not valid.
    KubeadmConfig,
    /// kubeadm's configuration is for another release than the image.
    Version,
    /// A certificate or key of the cluster is missing.
    CertificateMissing,
    /// A certificate or key can't be used, or they don't belong together.
    Certificate,
    /// etcd did not start or could not be joined.
    Etcd,
    /// kube-apiserver did not become ready.
    ApiServer,
    /// The cluster could not be found with the bootstrap token.
    Discovery,
    /// The cluster's CA is not the one that the configuration pins.
    CaHash,
    /// The API server does not accept the bootstrap token.
    BootstrapToken,
    /// The node could not get its certificate or register itself.
    Registration,
    /// The host on which the guest runs failed it.
    Host,
}

impl Reason {
    /// Whether the VM is well and just no Kubernetes node.
    pub fn is_plain_vm(self) -> bool {
        matches!(self, Self::NoDatasource | Self::NoUserdata | Self::KubeadmNotRun)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a boot ended without a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Failure {
    /// The stage.
    pub reason: Reason,
    /// What is wrong with which item.
    pub message: String,
    is_final: bool,
}

impl Failure {
    /// A failure with these words.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_final: false }
    }

    /// What kubeadm's preflight check of that name finds (`Port-10259`, `ImagePull`); a story provokes it.
    pub fn preflight(check: &str, found: &str) -> Self {
        Self::new(Reason::Preflight, format!("[ERROR {check}]: {found}"))
    }

    /// A failure that no waiting repairs.
    #[must_use]
    pub(super) fn for_good(self) -> Self {
        Self { is_final: true, ..self }
    }

    pub(super) fn is_final(&self) -> bool {
        self.is_final
    }

    /// An error of the host: a file, a process, a port.
    pub fn host(doing: &str, error: &dyn fmt::Display) -> Self {
        Self::new(Reason::Host, format!("{doing}: {error}"))
    }
}

/// The API server's message and code, without the object that it is about.
pub(super) fn api_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// What an error of serde says without quoting the value it stumbled on.
///
/// Field names are no secrets; values of cloud-init are.
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
