//! Pauses a WCPMachine's VirtualMachine too, so that the VM operator doesn't change VMs while a cluster is paused or moved.

use api::capw::WCPMachine;
use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::context::Context;
use super::identity::whose;
use crate::error::Error;
use crate::upstream::NameAvailability;

/// The annotation value that capw sets. A VirtualMachine that was paused with another value isn't resumed.
const OURS: &str = "capw";

/// Returns the new value of the pause annotation, or `None` if it doesn't have to change. A null value removes the annotation.
fn change(vm: &VirtualMachine, paused: bool) -> Option<Value> {
    match (paused, vm.annotations().get(annotation::PAUSED).map(String::as_str)) {
        (true, None) => Some(OURS.into()),
        (false, Some(OURS)) => Some(Value::Null),
        _ => None,
    }
}

/// Pauses the WCPMachine's VirtualMachine if `paused` is true. Otherwise resumes it, if capw paused it.
pub async fn carry_down(
    wcp_machine: &WCPMachine,
    vm: Option<&VirtualMachine>,
    paused: bool,
    ctx: &Context,
) -> Result<(), Error> {
    let Some(vm) = vm.filter(|vm| whose(wcp_machine, Some(vm)) == NameAvailability::Free) else {
        return Ok(());
    };
    let Some(value) = change(vm, paused) else { return Ok(()) };
    let patch = json!({ "metadata": { "annotations": { annotation::PAUSED: value } } });
    ctx.api.patch(vm, patch).await.map_err(Error::api(vm, "pausing or resuming"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_rests_with_its_machine_and_no_longer() {
        let vm = |value: Option<&str>| {
            let mut vm = VirtualMachine::default();
            let marked = value.map(|value| (annotation::PAUSED.to_owned(), value.to_owned()));
            vm.annotations_mut().extend(marked);
            vm
        };
        assert_eq!(change(&vm(None), true), Some(OURS.into()));
        assert_eq!(change(&vm(Some(OURS)), true), None);
        assert_eq!(change(&vm(Some(OURS)), false), Some(Value::Null));
        assert_eq!(change(&vm(None), false), None);
        assert_eq!(change(&vm(Some("")), false), None, "somebody else paused it");
        assert_eq!(change(&vm(Some("")), true), None);
    }
}
