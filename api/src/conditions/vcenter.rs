//! Reasons that stand for a call which vCenter refused or did not answer: the categories of the vCenter client's
//! errors. Those that are tried again are warnings.

reasons! {
    /// The session is not valid any more.
    Warning NOT_AUTHENTICATED = "NotAuthenticated";
    /// User name or password is wrong.
    Error INVALID_LOGIN = "InvalidLogin";
    /// The user lacks a privilege.
    Error NO_PERMISSION = "NoPermission";
    /// The object is not there.
    Error NOT_FOUND = "NotFound";
    /// The folder has an object of this name.
    Error DUPLICATE_NAME = "DuplicateName";
    /// A resource pool or host has not what was asked for.
    Error INSUFFICIENT_RESOURCES = "InsufficientResources";
    /// The object's state does not allow the operation.
    Error INVALID_STATE = "InvalidState";
    /// Another task works on the object.
    Warning BUSY = "Busy";
    /// The call makes no sense to vCenter.
    Error INVALID_REQUEST = "InvalidRequest";
    /// vCenter has no capacity for the call.
    Warning OVERLOADED = "Overloaded";
    /// vCenter was not reached; of a VM: its host is disconnected.
    Warning UNREACHABLE = "Unreachable";
    /// The connection ended before the answer.
    Warning ANSWER_LOST = "AnswerLost";
    /// There was no answer in time.
    Warning TIMED_OUT = "TimedOut";
    /// vCenter's certificate is not trusted.
    Error CERTIFICATE_REFUSED = "CertificateRefused";
    /// Somebody canceled the task.
    Warning CANCELED = "Canceled";
    /// This vCenter does not know the operation.
    Error UNSUPPORTED = "Unsupported";
    /// The answer makes no sense.
    Error UNEXPECTED = "Unexpected";
    /// Any other fault.
    Error FAULT = "Fault";
}
