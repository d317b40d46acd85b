//! Faults as vCenter reports them, and what kind of failure each is.

use std::fmt;

use crate::{Kind, Value};

/// A fault as vCenter reports it.
#[derive(Clone, PartialEq)]
pub struct Fault {
    /// The fault's type, such as `DuplicateName`. Match on this, never on the message.
    pub type_name: String,
    /// The localised message; may be empty.
    pub message: String,
    /// The fault's own fields.
    pub detail: Value,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            f.write_str(&self.type_name)
        } else {
            write!(f, "{} ({})", self.message.trim_end_matches('.'), self.type_name)
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Fault {
    /// Reads a fault object, with or without the `LocalizedMethodFault` around it.
    pub fn read(value: &Value) -> Self {
        let inner = value.get("fault");
        let (detail, outer) = if inner.as_object().is_some() { (inner, Some(value)) } else { (value, None) };
        let localized = outer.and_then(|outer| outer.get("localizedMessage").as_str());
        let mut message =
            localized.or_else(|| detail.get("faultstring").as_str()).unwrap_or_default().to_owned();
        // The reasons below the fault, which say what exactly is wrong.
        for reason in
            detail.get("faultMessage").items().iter().filter_map(|reason| reason.get("message").as_str())
        {
            if message.is_empty() {
                reason.clone_into(&mut message);
            } else if !message.contains(reason) {
                message = format!("{}: {reason}", message.trim_end_matches('.'));
            }
        }
        let type_name = match detail.type_name() {
            "" => "MethodFault",
            name => name,
        };
        Self { type_name: type_name.to_owned(), message, detail: detail.clone() }
    }
}

/// Sorts a fault by its type; base types are spelled out because the wire names the leaf only.
pub(crate) fn kind_of(fault: &Fault) -> Kind {
    let text = |name: &str| fault.detail.get(name).as_str().unwrap_or_default().to_owned();
    let moref = |name: &str| fault.detail.get(name).as_moref().cloned();
    match fault.type_name.as_str() {
        "NotAuthenticated" => Kind::NotAuthenticated,
        "InvalidLogin" | "PasswordExpired" | "InvalidLocale" | "NoClientCertificate" => Kind::InvalidLogin,
        "NoPermission" | "RestrictedByAdministrator" => Kind::NoPermission { privilege: text("privilegeId") },
        "ManagedObjectNotFound" => Kind::NotFound { missing: moref("obj") },
        "NotFound" | "FileNotFound" => Kind::NotFound { missing: None },
        "DuplicateName" | "AlreadyExists" => {
            Kind::DuplicateName { name: text("name"), holder: moref("object") }
        }
        "NoDiskSpace" | "NoCompatibleHost" | "NoCompatibleDatastore" | "NumVirtualCpusExceedsLimit" => {
            Kind::InsufficientResources
        }
        name if name.starts_with("Insufficient") => Kind::InsufficientResources,
        "InvalidPowerState"
        | "InvalidState"
        | "InvalidHostState"
        | "InvalidDatastoreState"
        | "InvalidHostConnectionState"
        | "ToolsUnavailable"
        | "NotSupported"
        | "InMaintenanceMode" => Kind::InvalidState,
        "TaskInProgress" | "ConcurrentAccess" | "ResourceInUse" | "VAppTaskInProgress"
        | "HostCommunication" | "HostNotReachable" | "HostNotConnected" => Kind::Busy,
        "RequestCanceled" => Kind::Canceled,
        "InvalidRequest" | "InvalidArgument" | "InvalidProperty" | "InvalidType" | "MethodNotFound"
        | "InvalidName" => Kind::InvalidRequest,
        _ => Kind::Fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn the_reasons_below_a_fault_are_reported() {
        let reason = |text: &str| Object::new("LocalizableMessage").with("key", "k").with("message", text);
        let detail = Object::new("SystemError")
            .with("faultMessage", vec![reason("disk is full"), reason("It failed")]);
        let outer =
            Object::new("LocalizedMethodFault").with("fault", detail).with("localizedMessage", "It failed.");
        assert_eq!(Fault::read(&outer.into()).to_string(), "It failed: disk is full (SystemError)");
    }
}
