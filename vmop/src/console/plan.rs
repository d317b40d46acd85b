//! Decides what to do for a console request. The functions use neither a client nor a clock.

use std::time::Duration;

use api::vmop::{VirtualMachine, WebConsoleRequest, WebConsoleRequestStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use vsphere::MoRef;

use crate::console::key::PublicKey;

/// The ticket's validity, as in vm-operator.
pub const VALIDITY: Duration = Duration::from_mins(2);
/// The label with the request's UID, by which the console proxy finds the request.
pub const UUID_LABEL: &str = "vmoperator.vmware.com/webconsolerequest-uuid";

/// The next step for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Get a ticket and write it to the status, encrypted.
    Answer {
        vsphere_vm: MoRef,
        /// The key to encrypt the ticket with.
        key: PublicKey,
    },
    /// Keep the request for this long, until its ticket expires.
    Keep(Duration),
    /// Delete the request, because its ticket expired.
    Remove,
}

/// The reason why a request doesn't get a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketDenial {
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message, with the remedy.
    pub message: String,
}

/// Returns the next step for `request`. `vm` is the VirtualMachine that the request names, if it exists.
pub fn plan(
    request: &WebConsoleRequest,
    vm: Option<&VirtualMachine>,
    now: Timestamp,
) -> Result<Plan, TicketDenial> {
    if let Some(Time(expiry)) = request.status.as_ref().and_then(|status| status.expiry_time.clone()) {
        let left = expiry.duration_since(now);
        return Ok(Duration::try_from(left)
            .map_or(Plan::Remove, |left| if left.is_zero() { Plan::Remove } else { Plan::Keep(left) }));
    }
    let key = PublicKey::from_pem(&request.spec.public_key).map_err(|error| TicketDenial {
        reason: "InvalidPublicKey",
        message: format!(
            "spec.publicKey can't be used: {error}. Create a new request with an RSA key in PEM format"
        ),
    })?;
    let name = &request.spec.virtual_machine_name;
    let Some(vm) = vm else {
        let message = format!(
            "VirtualMachine {name} does not exist. Create it, or create a new request for another VirtualMachine"
        );
        return Err(TicketDenial { reason: "VirtualMachineNotFound", message });
    };
    let status = vm.status.as_ref();
    let Some(vsphere_vm) = status.and_then(|status| status.unique_id.as_deref()) else {
        let message =
            format!("VirtualMachine {name} is not in vCenter yet; see its conditions for the cause");
        return Err(TicketDenial { reason: "VirtualMachineNotCreated", message });
    };
    if status.and_then(|status| status.power_state.as_deref()) != Some(api::vmop::POWERED_ON) {
        let message = format!("VirtualMachine {name} is not running. Power it on");
        return Err(TicketDenial { reason: "VirtualMachineNotPoweredOn", message });
    }
    Ok(Plan::Answer { vsphere_vm: MoRef::vm(vsphere_vm), key })
}

/// Returns the status with the encrypted ticket (`response`) and its expiry time.
pub fn answered(response: String, proxy: Option<&str>, now: Timestamp) -> WebConsoleRequestStatus {
    // Whole seconds, because the API server doesn't store fractions of a second.
    let expiry = Timestamp::from_second((now + VALIDITY).as_second()).unwrap_or(now);
    WebConsoleRequestStatus {
        response: Some(response),
        expiry_time: Some(Time(expiry)),
        proxy_addr: proxy.map(str::to_owned),
    }
}

/// Returns the patch for missing metadata: the UID label and the VirtualMachine as owner. `None` if both exist.
pub fn adopted(request: &WebConsoleRequest, vm: &VirtualMachine) -> Option<serde_json::Value> {
    let uid = request.uid()?;
    let owner = kit::apply::build_controller_reference(vm);
    let labelled = request.labels().get(UUID_LABEL) == Some(&uid);
    let has_owner = request.owner_references().iter().any(|there| there.uid == owner.uid);
    if labelled && has_owner {
        return None;
    }
    let mut owners = request.owner_references().to_vec();
    if !has_owner {
        owners.push(owner);
    }
    Some(serde_json::json!({
        "metadata": { "labels": { UUID_LABEL: uid }, "ownerReferences": owners },
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(key: &str) -> WebConsoleRequest {
        serde_json::from_value(json!({
            "metadata": {"name": "r", "namespace": "ns", "uid": "u-1"},
            "spec": {"virtualMachineName": "vm", "publicKey": key},
        }))
        .unwrap()
    }

    fn vm(status: &serde_json::Value) -> VirtualMachine {
        serde_json::from_value(json!({
            "metadata": {"name": "vm", "namespace": "ns", "uid": "u-2"},
            "spec": {"imageName": "i", "className": "c"}, "status": status,
        }))
        .unwrap()
    }

    fn pem() -> String {
        support::console_keys::pem("wrapped")
    }

    #[test]
    fn a_vm_that_runs_gets_a_ticket_and_others_the_reason_why_not() {
        let now = Timestamp::UNIX_EPOCH;
        let running = vm(&json!({"uniqueID": "vm-7", "powerState": "poweredOn"}));
        let Ok(Plan::Answer { vsphere_vm, .. }) = plan(&request(&pem()), Some(&running), now) else {
            panic!()
        };
        assert_eq!(vsphere_vm, MoRef::vm("vm-7"));
        let refused =
            |key: &str, vm: Option<&VirtualMachine>| plan(&request(key), vm, now).unwrap_err().reason;
        assert_eq!(refused("nonsense", Some(&running)), "InvalidPublicKey");
        assert_eq!(refused(&pem(), None), "VirtualMachineNotFound");
        assert_eq!(refused(&pem(), Some(&vm(&json!({})))), "VirtualMachineNotCreated");
        let off = vm(&json!({"uniqueID": "vm-7", "powerState": "poweredOff"}));
        assert_eq!(refused(&pem(), Some(&off)), "VirtualMachineNotPoweredOn");
    }

    #[test]
    fn an_answer_is_kept_until_it_expires() {
        let now = Timestamp::from_second(1000).unwrap();
        let mut answered_one = request("whatever");
        answered_one.status = Some(answered("cipher".into(), Some("10.0.0.1"), now));
        let at = |second| plan(&answered_one, None, Timestamp::from_second(second).unwrap()).unwrap();
        assert_eq!(at(1000), Plan::Keep(VALIDITY));
        assert_eq!(at(1119), Plan::Keep(Duration::from_secs(1)));
        assert_eq!((at(1120), at(2000)), (Plan::Remove, Plan::Remove));
    }

    #[test]
    fn a_request_goes_with_its_vm() {
        let (mut request, vm) = (request("k"), vm(&json!({})));
        let patch = adopted(&request, &vm).unwrap();
        assert_eq!(patch["metadata"]["labels"][UUID_LABEL], "u-1");
        request.metadata = serde_json::from_value(json!({
            "name": "r", "uid": "u-1", "labels": patch["metadata"]["labels"],
            "ownerReferences": patch["metadata"]["ownerReferences"],
        }))
        .unwrap();
        assert_eq!(adopted(&request, &vm), None);
    }
}
