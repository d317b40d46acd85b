//! What somebody replaced of a virtual machine of ours, and how it is put back. Pure.

use api::names::label;
use api::vmop::{POWERED_OFF, POWERED_ON, VirtualMachine};
use kube::ResourceExt;

/// The labels that say whose a virtual machine is.
const LABELS: [&str; 5] = [
    label::CAPW_CLUSTER_NAME,
    label::CAPW_CLUSTER_ROLE,
    label::CAPV_CLUSTER_NAME,
    label::CAPV_CLUSTER_ROLE,
    label::CLUSTER_NAME,
];

/// The fields of ours in which `live` says something else than we do.
pub fn replaced_fields(live: &VirtualMachine, intent: &VirtualMachine) -> Vec<&'static str> {
    let controller = |vm: &VirtualMachine| {
        vm.owner_references()
            .iter()
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.uid.clone())
    };
    let fields = [
        ("spec.vmMetadata", boots_from_another(live, intent)),
        ("metadata.ownerReferences", controller(live) != controller(intent)),
        ("metadata.labels", LABELS.iter().any(|key| live.labels().get(*key) != intent.labels().get(*key))),
    ];
    fields.into_iter().filter(|(_, replaced)| *replaced).map(|(field, _)| field).collect()
}

/// The intent in a form that the API server takes: a virtual machine that is on and stays on keeps the Secret that it names, so one
/// that names another is powered off first. The next reconcile powers it on.
pub fn acceptable(live: Option<&VirtualMachine>, mut intent: VirtualMachine) -> VirtualMachine {
    let is_on = |vm: &VirtualMachine| vm.spec.power_state.as_deref().unwrap_or(POWERED_ON) == POWERED_ON;
    if live.is_some_and(|live| is_on(live) && boots_from_another(live, &intent)) {
        intent.spec.power_state = Some(POWERED_OFF.to_owned());
    }
    intent
}

fn boots_from_another(live: &VirtualMachine, intent: &VirtualMachine) -> bool {
    let named = |vm: &VirtualMachine| {
        let metadata = vm.spec.vm_metadata.as_ref()?;
        Some((metadata.secret_name.clone(), metadata.config_map_name.clone(), metadata.transport.clone()))
    };
    named(live) != named(intent)
}
