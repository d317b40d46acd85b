//! What can go wrong with the control plane, in words that let the user act.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of the embedded control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a process could not be reached.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, as in "read /path".
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Programs are missing and there is no Go to build them with.
    #[error(
        "{} not found, and there is no Go to build {}. Install Go {go} or later (`go` on the PATH), or provide the programs, by option or in a folder of KUBEBUILDER_ASSETS or PATH",
        .missing.join(", "), if .missing.len() == 1 { "it" } else { "them" }
    )]
    NoGo {
        /// The programs that are missing.
        missing: Vec<String>,
        /// The oldest Go that will do.
        go: &'static str,
    },
    /// A program could not be made from its Go module.
    #[error("cannot build {tool}: {reason}")]
    Build {
        /// The program, or the manifests, that was being made.
        tool: String,
        /// The end of the tool's output.
        reason: String,
    },
    /// A program that was named explicitly is not usable.
    #[error("{tool}: {reason}")]
    Tool {
        /// The program.
        tool: String,
        /// Why it is of no use, and what to do.
        reason: String,
    },
    /// A certificate or key could not be made or read.
    #[error("cannot make {what}: {source}")]
    Certificate {
        /// Which certificate.
        what: String,
        /// Why.
        source: rcgen::Error,
    },
    /// A manifest that comes with this program is not what it should be.
    #[error("manifest {what}: {reason}")]
    Manifest {
        /// The file or object.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The manifests of a component are not what they should be.
    #[error(transparent)]
    Component(#[from] components::Error),
    /// The API server refused or did not answer.
    #[error("cannot {what}: {}", answer(source))]
    Api {
        /// What was asked.
        what: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// A process ended before it was ready.
    #[error("{name} exited ({status}) before it was ready; the end of {}:\n{tail}", .log.display())]
    Exited {
        /// The process.
        name: String,
        /// How it ended.
        status: String,
        /// Where it logs.
        log: PathBuf,
        /// Its last log lines.
        tail: String,
    },
    /// A port was taken by somebody else between choosing it and listening on it.
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
        /// The instances that can still be created.
        left: usize,
        /// The instances that are needed.
        needed: usize,
    },
    /// Something did not come about in time.
    #[error("{what} within {} s: {reason}", .limit.as_secs())]
    TooLate {
        /// What was waited for, as in "kube-apiserver is not ready".
        what: String,
        /// How long was waited.
        limit: Duration,
        /// The last thing seen.
        reason: String,
    },
    /// The data folder is in use by another control plane.
    #[error("{} is in use by another control plane (process {owner}). Stop that one, or use another folder", .folder.display())]
    InUse {
        /// The data folder.
        folder: PathBuf,
        /// The process that holds it, as far as known.
        owner: String,
    },
}

/// The API server's message; for other errors, what the client has to say.
fn answer(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was being done when an operating-system call or an API request failed.
pub(crate) trait Doing<T> {
    /// Adds what was tried, as in "write /path".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}

impl<T> Doing<T> for kube::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Api { what: what(), source: Box::new(source) })
    }
}

impl<T> Doing<T> for std::result::Result<T, rcgen::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Certificate { what: what(), source })
    }
}
