//! The cluster module of a VM, for anti-affinity.

use api::conditions::vmop as known;
use api::names::annotation;
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use vsphere::inventory::PowerState;
use vsphere::{MoRef, Vm};

use super::policy::not_realized_yet;
use crate::unmet::{Need, Unmet};
use crate::vcenter::VCenter;

/// The changes to a VM's cluster module membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleMembership {
    /// The module that the VM must still join. A VM that is off joins it before power-on.
    pub to_join: Option<String>,
    /// The module that the policy names but that doesn't exist in vCenter.
    pub vanished: Option<String>,
}

/// Returns the required changes to the cluster module membership. `pool` selects the cluster. The current membership is read
/// only for a running VM.
pub async fn plan_membership(
    vm: &VirtualMachine,
    pool: Option<&MoRef>,
    vsphere_vm: Option<&Vm>,
    vcenter: &VCenter,
) -> Need<ModuleMembership> {
    let Some(module) = find_wanted_module(vm, pool, vcenter)? else { return Ok(ModuleMembership::default()) };
    // A VM that is off joins at power-on. A running VM may have been assigned to its group after power-on.
    let running = vsphere_vm.filter(|vsphere_vm| vsphere_vm.power_state == Some(PowerState::On));
    let Some(running) = running else {
        return Ok(ModuleMembership { to_join: Some(module), vanished: None });
    };
    match vcenter.memberships.holds(&vcenter.client, &module, &running.moref).await {
        Ok(holds) => Ok(ModuleMembership { to_join: Some(module).filter(|_| !holds), vanished: None }),
        Err(error) => {
            // A running VM continues without the module.
            tracing::warn!(module, %error, "cannot read a cluster module");
            Ok(ModuleMembership { to_join: None, vanished: Some(module).filter(|_| error.is_not_found()) })
        }
    }
}

/// Returns the module of the VM's group in the cluster of `pool`, or `None` if the VM doesn't name both a policy and a group,
/// or if the policy doesn't have modules.
fn find_wanted_module(vm: &VirtualMachine, pool: Option<&MoRef>, vcenter: &VCenter) -> Need<Option<String>> {
    let policy = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty());
    let group = vm.annotations().get(annotation::CLUSTER_MODULE_GROUP).filter(|group| !group.is_empty());
    let (Some(policy), Some(group)) = (policy, group) else { return Ok(None) };
    let namespace = vm.namespace().unwrap_or_default();
    let named = format!("VirtualMachineSetResourcePolicy {namespace}/{policy}");
    let Some(realized) = vcenter.realized_policies.of(&key(Some(&namespace), policy)) else {
        return Err(not_realized_yet(&named));
    };
    let here = realized.iter().find(|realized| Some(&realized.placement.pool) == pool).or(realized.first());
    let Some(realized) = here.filter(|realized| realized.has_modules()) else { return Ok(None) };
    if let Some(module) = realized.modules.get(group) {
        return Ok(Some(module.clone()));
    }
    let message = format!(
        "{named} has no group {group} in spec.clustermodules. Correct the annotation {}, or use another policy",
        annotation::CLUSTER_MODULE_GROUP
    );
    Err(Unmet::wrong(known::CLUSTER_MODULE_NOT_FOUND, message))
}
