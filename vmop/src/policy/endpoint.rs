//! Looks up the VMs that use the control plane endpoint that a policy's cluster is about to get. Another management
//! cluster on the same vCenter may have assigned the same address.

use std::collections::BTreeSet;

use api::names::annotation;
use api::vmop::{ControlPlaneEndpointStatus, VirtualMachineSetResourcePolicy};
use kit::events::describe_object;
use kube::ResourceExt;

use crate::vcenter::VCenter;
use crate::vcenter::endpoints::EndpointRecord;

/// Returns the VM that uses the endpoint in the policy's annotation, and the virtual routers in use. Without the annotation,
/// returns `None` and doesn't call vCenter.
pub async fn look_up(
    policy: &VirtualMachineSetResourcePolicy,
    vcenter: &VCenter,
) -> vsphere::Result<Option<ControlPlaneEndpointStatus>> {
    let Some(host) = policy.annotations().get(annotation::CONTROL_PLANE_ENDPOINT) else { return Ok(None) };
    let records = vcenter.endpoints.get(&vcenter.client).await?;
    for record in records.iter().filter(|record| record.has_host(host)) {
        tracing::warn!(host, vm = %record, policy = describe_object(policy), "a VM in vCenter has the control plane endpoint that a new cluster would get");
    }
    let namespace = policy.namespace().unwrap_or_default();
    Ok(Some(judge(host, &namespace, &vcenter.settings.stack, &records)))
}

/// Describes the use of an endpoint to users in `namespace`. They learn only the names of VMs in their own namespace.
fn judge(host: &str, namespace: &str, stack: &str, records: &[EndpointRecord]) -> ControlPlaneEndpointStatus {
    let user = records.iter().find(|record| record.has_host(host)).map(|record| {
        if record.stack != stack {
            return "a VM of another installation".to_owned();
        }
        match record.owner.split_once('/') {
            Some((of, name)) if of == namespace => format!("VirtualMachine {name} of this namespace"),
            _ => "a VM of another namespace".to_owned(),
        }
    });
    let routers: BTreeSet<i32> =
        records.iter().filter_map(|record| record.virtual_router).map(i32::from).collect();
    ControlPlaneEndpointStatus {
        host: host.to_owned(),
        used_by: user,
        virtual_router_ids: routers.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use vsphere::MoRef;

    use super::*;

    #[test]
    fn a_user_learns_the_names_of_vms_in_the_own_namespace_only() {
        let record = |owner: &str, stack: &str, host: &str, virtual_router| EndpointRecord {
            vm: ("cp".to_owned(), MoRef::new("VirtualMachine", "vm-1")),
            owner: owner.to_owned(),
            stack: stack.to_owned(),
            host: host.to_owned(),
            virtual_router,
        };
        let used_by = |owner: &str, stack: &str, host: &str| {
            judge("fd00::5", "dev", "s1", &[record(owner, stack, host, None)]).used_by
        };
        assert_eq!(used_by("dev/cp", "s1", "fd00::6"), None);
        for (owner, stack, expected) in [
            ("dev/cp", "s1", "VirtualMachine cp of this namespace"),
            ("prod/cp", "s1", "a VM of another namespace"),
            ("dev/cp", "s2", "a VM of another installation"),
        ] {
            assert_eq!(used_by(owner, stack, "fd00:0::5").as_deref(), Some(expected));
        }
        let records =
            [("10.0.0.5", Some(9)), ("10.0.0.6", Some(3)), ("10.0.0.7", None), ("10.0.0.8", Some(9))];
        let records = records.map(|(host, router)| record("dev/cp", "s2", host, router));
        let found = judge("10.0.0.9", "dev", "s1", &records);
        assert_eq!((found.used_by, found.virtual_router_ids), (None, vec![3, 9]));
    }
}
