//! The exit statuses of the command. Each status tells the caller how to proceed.

use std::fmt;
use std::process::ExitCode;

use crate::terminal::output::say;

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    Done = 0,
    Failed = 1,
    /// The command line is invalid, or an input file can't be read.
    Usage = 2,
    /// The command refused its input and didn't change anything.
    Refused = 3,
    /// The work didn't finish before the timeout.
    NotYet = 4,
    /// A signal interrupted the command. Shells use the same status.
    Interrupted = 130,
}

impl ExitStatus {
    /// All statuses, by number.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::Usage, Self::Refused, Self::NotYet, Self::Interrupted];

    /// Returns an error that ends the command with this status.
    pub fn error(self, message: String) -> anyhow::Error {
        StatusError { status: self, message }.into()
    }

    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the meaning and the caller's next step, for the CLI reference.
    pub const fn meaning(self) -> (&'static str, &'static str) {
        match self {
            Self::Done => (
                "done. `up -f`, `apply`, `scale`, `upgrade`: every cluster is Running. `delete`: the cluster is gone. `describe` with `--exit-status`: nothing blocks",
                "",
            ),
            Self::Failed => (
                "failed. `doctor`: an error, or a warning with `--fail-on warning`. `lint`: a manifest has an error. `up --once`: a cluster was not Running in time, and is gone with its stack",
                "read the message",
            ),
            Self::Usage => {
                ("the command line is not valid, or a file cannot be read", "correct the call or the file")
            }
            Self::Refused => (
                "refused, and nothing was changed. `up -f`: a manifest has an error that `lint` finds. `up -f`, `apply`: the API server refused a manifest. `apply`, `scale`, `upgrade`: another manager has set a field. `site discover`: several objects fit, or the certificate is not trusted. `init`: the cluster, the site file or vCenter does not allow the installation. `uninstall`: clusters or VMs are left. `move`: one of the two management clusters is not ready for it. `new cluster`: the namespace has nothing to choose from, or the API server refuses the cluster. `convert`: a needed value is missing or wrong. `kubeconfig --merge`: the file has an entry of another cluster with this name",
                "correct the manifest, or pass the flag that the message names",
            ),
            Self::NotYet => (
                "not finished in time. `up -f`, `apply`, `scale`, `upgrade`: a cluster is not Running yet. `delete`: something is left. `image import --wait`: the release does not exist yet. `init`: a component is not available. `move`: a moved cluster does not run yet. `describe` with `--exit-status`: something blocks the cluster or VM. `kubeconfig`: the cluster has none yet",
                "run the same command again: the work continues meanwhile",
            ),
            Self::Interrupted => {
                ("interrupted. The message says what was begun", "run the same command again")
            }
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.number())
    }
}

/// An error that ends the command with a status other than [`ExitStatus::Failed`].
#[derive(Debug)]
struct StatusError {
    status: ExitStatus,
    message: String,
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StatusError {}

/// Returns the error for a command that refuses its input. The message adds that nothing was changed.
pub fn refuse(reason: &str) -> anyhow::Error {
    ExitStatus::Refused.error(format!("{reason}. Nothing was changed"))
}

/// Returns the exit status for an error.
pub fn status_of_error(error: &anyhow::Error) -> ExitStatus {
    error.downcast_ref::<StatusError>().map_or(ExitStatus::Failed, |error| error.status)
}

/// Prints an error with its causes, and returns its exit status.
pub fn failed(error: &anyhow::Error) -> ExitStatus {
    say!("error: {}", with_causes(error));
    status_of_error(error)
}

/// Formats an error with its causes in one line. For an API server's error response, only the message is included.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in error.chain() {
        let boxed = cause.downcast_ref::<Box<kube::Error>>().map(|error| &**error);
        let answer = cause.downcast_ref::<kube::Error>().or(boxed);
        let text = answer.map_or_else(|| cause.to_string(), kit::api_error::message);
        // Some errors repeat their cause.
        if !words.last().is_some_and(|last| last.contains(&text)) {
            words.push(text);
        }
        // The source of an API error repeats the error as debug output. For other errors, the source is the cause.
        if matches!(answer, Some(kube::Error::Api(_))) {
            break;
        }
    }
    words.join(": ")
}

/// Returns the exit status for a result. Prints an error with its causes.
pub fn status_of(result: anyhow::Result<()>) -> ExitStatus {
    result.map_or_else(|error| failed(&error), |()| ExitStatus::Done)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_answer_of_the_api_server_is_its_message() {
        let status = kube::core::Status::failure("pods \"web\" not found", "NotFound").with_code(404);
        let error = anyhow::Error::new(kube::Error::Api(Box::new(status))).context("cannot read Pod web");
        assert_eq!(with_causes(&error), "cannot read Pod web: pods \"web\" not found");
        let status = kube::core::Status::failure("field is immutable", "Invalid").with_code(422);
        let source = Box::new(kube::Error::Api(Box::new(status)));
        let error =
            anyhow::Error::new(plane::Error::Api { what: "apply StorageClass gold".to_owned(), source });
        assert_eq!(with_causes(&error), "cannot apply StorageClass gold: field is immutable");
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
        let error = anyhow::Error::new(kube::Error::Service(Box::new(refused))).context("no answer");
        assert!(with_causes(&error).ends_with("Connection refused"), "{}", with_causes(&error));
        let error = anyhow::anyhow!("no such file").context("site.yaml");
        assert_eq!(with_causes(&error), "site.yaml: no such file");
    }

    #[test]
    fn an_error_keeps_its_status_below_a_context() {
        let error = ExitStatus::NotYet.error("no release yet".to_owned());
        let error = Err::<(), _>(error).context("image import").unwrap_err();
        assert_eq!(status_of_error(&error), ExitStatus::NotYet);
        assert_eq!(status_of_error(&anyhow::anyhow!("no")), ExitStatus::Failed);
    }
}
