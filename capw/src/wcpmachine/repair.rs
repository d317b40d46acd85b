//! Detects and restores VirtualMachine fields that other clients changed, without I/O.

use api::names::label;
use api::vmop::{POWERED_OFF, POWERED_ON, VirtualMachine};
use kube::ResourceExt;

/// The labels that name a VirtualMachine's cluster and role.
const LABELS: [&str; 5] = [
    label::CAPW_CLUSTER_NAME,
    label::CAPW_CLUSTER_ROLE,
    label::CAPV_CLUSTER_NAME,
    label::CAPV_CLUSTER_ROLE,
    label::CLUSTER_NAME,
];

/// Returns the names of the fields that capw owns and in which `live` differs from `intent`.
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

/// Returns the intent in a form that the API server accepts. The Secret name of a powered-on VirtualMachine can't change, so
/// the VirtualMachine is powered off first. The next reconcile powers it on.
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
