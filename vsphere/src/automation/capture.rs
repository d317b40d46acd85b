//! A VM becomes an OVF item of a content library.

use std::time::Duration;

use bounds::Turn;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::call::Call;
use super::ovf::{DeploymentError, OVF_ITEMS, why};
use crate::retry::RetryPolicy;
use crate::style::Form;
use crate::{Client, Error, MoRef, Result};

/// An item to be made of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The VM.
    pub vm: MoRef,
    /// The library's id; it must be a local one.
    pub library_id: String,
    /// The item's name.
    pub name: String,
    /// The item's description.
    pub description: String,
    /// Identifies this request: vCenter carries out two calls with the same token once.
    pub token: String,
}

#[derive(Deserialize)]
struct Captured {
    #[serde(default)]
    succeeded: bool,
    ovf_library_item_id: Option<String>,
    error: Option<DeploymentError>,
}

impl Client {
    /// Makes an OVF item of a VM, waits for it, and gives the item's id; `turn` is a place in [`Client::captures`].
    ///
    /// vCenter answers only when the disks are copied, so this may take long; the deadline is the caller's.
    /// Never sent twice: after a lost answer look for the name in the library. A name that is taken is
    /// `DuplicateName`.
    pub async fn capture_ovf(&self, turn: &Turn, capture: &Capture, deadline: Duration) -> Result<String> {
        let policy = RetryPolicy { timeout: deadline, repeatable: false };
        let captured: Captured = self
            .long_automation(turn, "capture", policy, |form| call(capture, form))
            .await
            .map_err(|error: Error| error.on(&capture.name))?;
        match captured.ovf_library_item_id {
            Some(item) if captured.succeeded => Ok(item),
            _ => Err(Error::from_fault("capture", why(captured.error)).on(&capture.name)),
        }
    }
}

/// The token is a header in the one form and a member of the body in the other.
fn call(capture: &Capture, form: Form) -> Call {
    let mut body = json!({
        "source": { "type": capture.vm.kind(), "id": capture.vm.id() },
        "target": { "library_id": capture.library_id },
        "create_spec": { "name": capture.name, "description": capture.description },
    });
    match form {
        Form::Api => Call {
            client_token: Some(capture.token.clone()).filter(|token| !token.is_empty()),
            ..Call::post(form.all(OVF_ITEMS), body)
        },
        Form::Rest => {
            body["client_token"] = Json::String(capture.token.clone());
            Call::post(form.all(OVF_ITEMS), body)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_capture() {
        let capture = Capture {
            vm: MoRef::vm("vm-7"),
            library_id: "lib-1".into(),
            name: "node-image".into(),
            description: "made of node".into(),
            token: "t/1".into(),
        };
        let forms = [Form::Api, Form::Rest].map(|form| {
            let Call { path, body, client_token, .. } = call(&capture, form);
            json!({ "path": path, "body": body, "client_token": client_token })
        });
        insta::assert_json_snapshot!(forms);
    }
}
