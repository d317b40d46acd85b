//! The error kinds that callers distinguish.

use crate::{MoRef, Thumbprint};

/// An error kind that callers distinguish.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The session is gone and logging in again didn't help, or the change is bound to an earlier session.
    NotAuthenticated,
    /// vCenter rejects the user name or the password.
    InvalidLogin,
    /// The user lacks a privilege.
    NoPermission {
        /// A privilege ID such as `VirtualMachine.Inventory.CreateFromExisting`; empty if vCenter didn't report it.
        privilege: String,
    },
    /// The object, or another object that the call refers to, doesn't exist (any more).
    NotFound {
        /// The missing object, if vCenter reports it.
        missing: Option<MoRef>,
    },
    /// An object with this name already exists in the folder, resource pool or library.
    DuplicateName {
        name: String,
        /// The object with that name, if vCenter reports it.
        holder: Option<MoRef>,
    },
    /// Hosts, resource pools or datastores don't have enough capacity.
    InsufficientResources,
    /// The object's state doesn't allow the call: for example, a running VM can't be destroyed.
    InvalidState,
    /// The object is busy or was changed meanwhile (`TaskInProgress`, `ConcurrentAccess`), or vCenter can't reach the
    /// object's host.
    Busy,
    /// The request itself is invalid.
    InvalidRequest,
    /// vCenter is overloaded or starting: vCenter, or a proxy in front of it, responds with 503, 429 or an HTML page,
    /// for example.
    Overloaded,
    /// The connection failed, so the request was not sent.
    Unreachable {
        /// The innermost cause, such as an operating system error.
        cause: String,
    },
    /// The request was sent, but the response was lost. The call may or may not have been carried out.
    AnswerLost {
        /// The transport error.
        cause: String,
    },
    /// The call timed out. It may or may not have been carried out.
    TimedOut,
    /// The response exceeds the size limit and was not read. The call may have been carried out.
    TooLarge {
        /// The size limit in bytes.
        limit: usize,
    },
    /// The server's certificate was rejected, or the TLS connection failed, so the request was not sent.
    Tls {
        /// The reason for the rejection or failure.
        cause: String,
        /// The SHA-256 thumbprint of the rejected certificate; `None` for other TLS failures.
        shown: Option<Thumbprint>,
    },
    /// The call was canceled: the session or the property collector ended, or this client must not send calls or
    /// changes any more.
    Canceled,
    /// The server, or this version of the client, doesn't support the call.
    Unsupported {
        /// The missing feature, described for users.
        what: String,
    },
    /// The response can't be interpreted.
    Unexpected {
        /// The reason, described for users.
        cause: String,
    },
    /// Any other fault.
    Fault,
}
