//! What can go wrong with a call of the control API.

use reqwest::StatusCode;

/// Why a call of the control API failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control API did not answer.
    #[error("the simulator's control API does not answer {call}: {source}")]
    Unreachable {
        /// Method and path.
        call: String,
        /// The transport's error, without its address.
        source: reqwest::Error,
    },
    /// The answer has no such member.
    #[error("the simulator's control API answers {call} without {member}")]
    Missing {
        /// Method and path.
        call: String,
        /// The name of the member.
        member: String,
    },
    /// The thing asked for is not there (any more).
    #[error("the simulator's control API knows no {call}")]
    NotFound {
        /// Method and path.
        call: String,
    },
    /// The control API refused.
    #[error("the simulator's control API refused {call}: {status} {message}")]
    Refused {
        /// Method and path.
        call: String,
        /// HTTP status.
        status: StatusCode,
        /// The control API's own words.
        message: String,
    },
}
