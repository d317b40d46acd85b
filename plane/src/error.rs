//! Control plane errors. Their messages say what the user can do.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kit::api_error::message;

/// A failure of the embedded control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file couldn't be accessed or a process couldn't be started.
    #[error("cannot {what}: {source}")]
    Io {
        /// The failed operation and its target, such as "read /path".
        what: String,
        source: io::Error,
    },
    /// Programs are missing, and Go isn't installed to build them.
    #[error(
        "{} not found, and there is no Go to build {}. Install Go {go} or later (`go` on the PATH), or provide the programs, by option, in LAYERCAKE_TOOLS (the folder lib/layercake/tools of a release), or in a folder of KUBEBUILDER_ASSETS or PATH",
        .missing.join(", "), if .missing.len() == 1 { "it" } else { "them" }
    )]
    NoGo {
        missing: Vec<String>,
        /// The minimum Go version.
        go: &'static str,
    },
    /// A program or a manifest couldn't be built from its Go module.
    #[error("cannot build {tool}: {reason}")]
    Build {
        /// The program.
        tool: String,
        /// The end of the build output, or another reason.
        reason: String,
    },
    /// A program that the user named, or the program cache, isn't usable.
    #[error("{tool}: {reason}")]
    Tool {
        tool: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// A certificate or key couldn't be generated or read.
    #[error("cannot make {what}: {source}")]
    Certificate {
        /// The certificate or key.
        what: String,
        source: pki::Error,
    },
    /// A manifest is invalid.
    #[error("manifest {what}: {reason}")]
    Manifest {
        /// The file or object.
        what: String,
        reason: String,
    },
    /// A component's manifests or certificates are invalid.
    #[error(transparent)]
    Component(#[from] components::Error),
    /// An object couldn't be applied.
    #[error(transparent)]
    Object(#[from] kit::objects::Error),
    /// The API server refused a request or didn't respond.
    #[error("cannot {what}: {}", message(source))]
    Api {
        /// The failed operation and its target, such as "apply Secret a".
        what: String,
        source: Box<kube::Error>,
    },
    /// A process exited before it was ready.
    #[error("{name} exited ({status}) before it was ready; the end of {}:\n{tail}", .log.display())]
    Exited {
        name: String,
        status: String,
        log: PathBuf,
        /// The last log lines.
        tail: String,
    },
    /// Another program took the port before the process could listen on it.
    #[error("{name} cannot listen: its port is already in use")]
    PortTaken {
        /// The process that lost its port.
        name: String,
    },
    /// The kernel lets this user create too few inotify instances.
    #[error(
        "a management cluster needs {needed} inotify instances, and this user can create only {left} more. Stop other programs, or raise the limit as root: sysctl fs.inotify.max_user_instances=1024"
    )]
    Inotify {
        /// The number of instances that can still be created.
        left: usize,
        /// The number of instances that a management cluster needs.
        needed: usize,
    },
    /// A condition wasn't met in time.
    #[error("{what} within {} s: {reason}", .limit.as_secs())]
    TooLate {
        /// The unmet condition, as in "kube-apiserver is not ready".
        what: String,
        /// The timeout.
        limit: Duration,
        /// The last reason why the condition wasn't met.
        reason: String,
    },
    /// Another control plane uses the data folder.
    #[error("{} is in use by another control plane (process {owner}). Stop that one, or use another folder", .folder.display())]
    InUse {
        folder: PathBuf,
        /// The process that holds the folder, if known.
        owner: String,
    },
}

/// A result with this crate's error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the failed operation to an operating-system, API or certificate error.
pub(crate) trait OperationContext<T> {
    /// Adds the failed operation and its target, such as "write /path".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> OperationContext<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}

impl<T> OperationContext<T> for kube::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Api { what: what(), source: Box::new(source) })
    }
}

impl<T> OperationContext<T> for std::result::Result<T, pki::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Certificate { what: what(), source })
    }
}
