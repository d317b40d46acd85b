//! A VM's folder and resource pool, from its resource policy or its namespace.

use api::conditions::{self, vmop as reason};
use api::vmop::{VirtualMachine, VirtualMachineSetResourcePolicy};
use kit::index::key;
use kube::ResourceExt;

use crate::caches::Caches;
use crate::unmet::{Need, Unmet};
use crate::vcenter::{Placement, VCenter};

/// Returns the VM's placement: from its resource policy, or `home` without one.
pub fn resolve_placement(
    vm: &VirtualMachine,
    home: &Placement,
    vcenter: &VCenter,
    caches: &Caches,
) -> Need<Placement> {
    let Some(name) = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(home.clone());
    };
    let namespace = vm.namespace().unwrap_or_default();
    let named = format!("VirtualMachineSetResourcePolicy {namespace}/{name}");
    let Some(policy) = caches.shared.policies.get(Some(&namespace), name) else {
        let message = format!("{named} does not exist. Create it, or use another policy");
        return Err(Unmet::wrong(reason::RESOURCE_POLICY_NOT_FOUND, message));
    };
    if let Some(realized) = vcenter.realized_policies.at(&key(Some(&namespace), name), home) {
        return Ok(realized.placement);
    }
    Err(unrealized(&named, &policy))
}

/// Returns the unmet need for a policy that exists and doesn't have a folder and pool yet.
fn unrealized(named: &str, policy: &VirtualMachineSetResourcePolicy) -> Unmet {
    let all = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = conditions::find(all, conditions::READY);
    let failed = ready.filter(|ready| ready.status == conditions::FALSE);
    match failed.and_then(|ready| ready.message.as_ref()) {
        Some(why) => Unmet::wrong(reason::RESOURCE_POLICY_NOT_READY, format!("{named}: {why}")),
        None => not_realized_yet(named),
    }
}

/// Returns the unmet need while a policy is still being created in vCenter.
pub fn not_realized_yet(named: &str) -> Unmet {
    Unmet::underway(reason::RESOURCE_POLICY_NOT_READY, format!("{named} is being created in vCenter"))
}
