//! The kinds of failure that callers distinguish.

use crate::{MoRef, Thumbprint};

/// The kinds of failure that callers distinguish.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The session is gone, and logging in again did not help.
    NotAuthenticated,
    /// vCenter refuses the user name or the password.
    InvalidLogin,
    /// The user lacks a privilege.
    NoPermission {
        /// Such as `VirtualMachine.Inventory.CreateFromExisting`; empty if vCenter did not say.
        privilege: String,
    },
    /// The object, or one that the call names, does not exist (any more).
    NotFound {
        /// The object that is missing, where vCenter reports it.
        missing: Option<MoRef>,
    },
    /// The name is taken in that folder.
    DuplicateName {
        /// The name.
        name: String,
        /// Who has it, where vCenter reports it.
        holder: Option<MoRef>,
    },
    /// No host, pool or datastore has room.
    InsufficientResources,
    /// The object is in a state that does not allow the call, such as a running VM that is destroyed.
    InvalidState,
    /// The object is busy or was changed meanwhile (`TaskInProgress`, `ConcurrentAccess`).
    Busy,
    /// The request itself is wrong.
    InvalidRequest,
    /// vCenter (or the proxy before it) has no time: 503, 429, an HTML page.
    Overloaded,
    /// No connection came about, so nothing was done.
    Unreachable {
        /// The cause, from the operating system.
        cause: String,
    },
    /// The request went out and no answer came back: it may or may not have been carried out.
    AnswerLost {
        /// The cause.
        cause: String,
    },
    /// The call took longer than allowed; it may or may not have been carried out.
    TimedOut,
    /// The answer is longer than any is read; it was not read, and what was asked may have been carried out.
    TooLarge {
        /// How many bytes it may have.
        limit: usize,
    },
    /// The server's certificate was refused, so nothing was sent.
    Tls {
        /// Why it was refused.
        cause: String,
        /// The SHA-256 thumbprint of the certificate that the server showed.
        shown: Option<Thumbprint>,
    },
    /// vCenter ended the call, because the session or the collector went away.
    Canceled,
    /// This server, or this build, can't do that.
    Unsupported {
        /// What can't be done.
        what: String,
    },
    /// The answer makes no sense.
    Unexpected {
        /// What does not fit.
        cause: String,
    },
    /// Any other fault.
    Fault,
}
