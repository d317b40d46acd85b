//! Reasons for failed vCenter calls: the error categories of the vCenter client. Errors that are retried are warnings.

reasons! {
    /// The session isn't valid anymore.
    Warning NOT_AUTHENTICATED = "NotAuthenticated";
    /// The user name or password is wrong.
    Error INVALID_LOGIN = "InvalidLogin";
    /// The user doesn't have a required privilege.
    Error NO_PERMISSION = "NoPermission";
    /// The object doesn't exist.
    Error NOT_FOUND = "NotFound";
    /// The folder already contains an object with this name.
    Error DUPLICATE_NAME = "DuplicateName";
    /// A resource pool or host doesn't have enough resources.
    Error INSUFFICIENT_RESOURCES = "InsufficientResources";
    /// The object's state doesn't allow the operation.
    Error INVALID_STATE = "InvalidState";
    /// Another task is running on the object.
    Warning BUSY = "Busy";
    /// vCenter rejects the call as invalid.
    Error INVALID_REQUEST = "InvalidRequest";
    /// vCenter is overloaded.
    Warning OVERLOADED = "Overloaded";
    /// vCenter isn't reachable; for a VM: its host is disconnected.
    Warning UNREACHABLE = "Unreachable";
    /// The connection closed before the response.
    Warning ANSWER_LOST = "AnswerLost";
    /// The response timed out.
    Warning TIMED_OUT = "TimedOut";
    /// The vCenter certificate isn't trusted.
    Error CERTIFICATE_REFUSED = "CertificateRefused";
    /// The task was canceled.
    Warning CANCELED = "Canceled";
    /// This vCenter doesn't support the operation.
    Error UNSUPPORTED = "Unsupported";
    /// The response is malformed or unexpected.
    Error UNEXPECTED = "Unexpected";
    /// Any other fault.
    Error FAULT = "Fault";
}
