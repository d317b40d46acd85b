//! Captures a VM as an OVF item in a content library.

use std::time::Duration;

use bounds::Turn;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::call::Call;
use super::ovf::{DeploymentError, OVF_ITEMS, why};
use crate::retry::RetryPolicy;
use crate::style::Form;
use crate::{Client, Error, MoRef, Result};

/// An OVF item to be captured from a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The source VM.
    pub vm: MoRef,
    /// The ID of the target library, which must be a local library.
    pub library_id: String,
    /// The name of the new item.
    pub name: String,
    /// The description of the new item.
    pub description: String,
    /// The idempotency token: vCenter executes two calls with the same token only once.
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
    /// Captures a VM as an OVF item, waits for completion, and returns the item's ID. `turn` is a slot in
    /// [`Client::captures`].
    ///
    /// vCenter responds only after it has copied the disks, so the caller chooses the maximum time to wait
    /// (`deadline`). If the response is lost, the call isn't repeated: look up the name in the library.
    ///
    /// Fails with `DuplicateName` if the name is taken.
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

/// Builds the request. The `/api` form sends the token in a header, the `/rest` form in the body.
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
