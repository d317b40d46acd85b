//! The error type for control API calls.

use reqwest::StatusCode;

/// The reasons why a control API call fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request failed, or the response could not be decoded.
    #[error("the simulator's control API does not answer {call}: {source}")]
    Unreachable {
        /// The request method and path.
        call: String,
        /// The transport error, without the URL.
        source: reqwest::Error,
    },
    /// The response lacks an expected field.
    #[error("the simulator's control API answers {call} without {member}")]
    Missing {
        /// The request method and path.
        call: String,
        /// The name of the missing field.
        member: String,
    },
    /// The object doesn't exist (404).
    #[error("the simulator's control API knows no {call}")]
    NotFound {
        /// The request method and path.
        call: String,
    },
    /// The control API responded with another error status.
    #[error("the simulator's control API refused {call}: {status} {message}")]
    Refused {
        /// The request method and path.
        call: String,
        /// The HTTP status code.
        status: StatusCode,
        /// The response body.
        message: String,
    },
}
