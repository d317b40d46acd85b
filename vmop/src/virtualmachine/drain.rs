//! Drains the load balancer traffic to a VM before the VM is powered off, if other VMs can take the traffic.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::{VirtualMachine, VirtualMachineService};
use jiff::{SignedDuration, Timestamp};

use crate::caches::{Caches, label_keys, selector_key};
use crate::service::plan::{backends, selects};

/// The time for load balancers to stop sending connections to a VM, and for its guest to end the open connections.
///
/// The time begins at the VirtualMachine's deletion timestamp, which is in whole seconds, so up to one second is lost.
const DRAIN: SignedDuration = SignedDuration::from_secs(3);
/// The interval at which a draining VM is checked again, because the other VMs may be gone by then.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the delay until the next check if a deleted VM must stay on, because a VirtualMachineService sends it traffic that
/// other VMs can take. Returns `None` if the drain time is over, if the VM doesn't have endpoint addresses, or if there aren't
/// other VMs, such as when a whole cluster is deleted.
pub fn drain(vm: &VirtualMachine, caches: &Caches, now: Timestamp) -> Option<Duration> {
    let keys = label_keys(vm);
    let services = keys.iter().flat_map(|key| caches.services_by_label.objects(key));
    let can_be_taken = services.into_iter().any(|service| {
        let key = selector_key(&service).unwrap_or_default();
        is_taken(vm, &service, &caches.vms_by_label.objects(&key))
    });
    look_again(vm, now).filter(|_| can_be_taken)
}

/// Returns true if the service isn't being deleted, selects `vm`, and can send its traffic to another one of the `vms`.
fn is_taken(vm: &VirtualMachine, service: &VirtualMachineService, vms: &[Arc<VirtualMachine>]) -> bool {
    let takes = |other: &Arc<VirtualMachine>| {
        other.metadata.name != vm.metadata.name && selects(service, other) && backends(other) != (None, None)
    };
    service.metadata.deletion_timestamp.is_none() && selects(service, vm) && vms.iter().any(takes)
}

fn look_again(vm: &VirtualMachine, now: Timestamp) -> Option<Duration> {
    vm.status.as_ref().filter(|status| !status.endpoint_addresses.is_empty())?;
    let end = vm.metadata.deletion_timestamp.as_ref()?.0 + DRAIN;
    let left = Duration::try_from(end.duration_since(now)).ok().filter(|left| !left.is_zero())?;
    Some(left.min(POLL_INTERVAL))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn node(name: &str, labels: &serde_json::Value, addresses: &[&str]) -> Arc<VirtualMachine> {
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "labels": labels},
            "spec": {"imageName": "i", "className": "c"},
            "status": {"endpointAddresses": addresses, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn deleted(mut vm: Arc<VirtualMachine>) -> Arc<VirtualMachine> {
        Arc::make_mut(&mut vm).metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        vm
    }

    #[test]
    fn a_vm_stays_on_while_others_take_its_traffic() {
        let service: VirtualMachineService = serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "ns"},
            "spec": {"type": "LoadBalancer", "ports": [], "selector": {"cluster": "c", "role": "controlplane"}},
        }))
        .unwrap();
        let (master, worker) =
            (json!({"cluster": "c", "role": "controlplane"}), json!({"cluster": "c", "role": "node"}));
        let vm = deleted(node("a", &master, &["10.0.0.1"]));
        let taken = |others: &[Arc<VirtualMachine>]| {
            is_taken(&vm, &service, &[std::slice::from_ref(&vm), others].concat())
        };
        assert!(taken(&[node("b", &master, &["10.0.0.2"])]));
        assert!(!taken(&[]), "it is alone");
        assert!(!taken(&[node("b", &master, &[])]), "the other has no address");
        assert!(!taken(&[node("b", &worker, &["10.0.0.2"])]), "the other is not behind the service");
        assert!(!taken(&[deleted(node("b", &master, &["10.0.0.2"]))]), "all go");
        let other = [node("b", &master, &["10.0.0.2"])];
        assert!(!is_taken(&node("w", &worker, &["10.0.0.3"]), &service, &other));
        let mut going = service.clone();
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(!is_taken(&vm, &going, &other), "the service goes");
    }

    #[test]
    fn a_vm_stays_on_for_three_seconds_and_no_longer() {
        let labels = json!({});
        let after = |vm: &VirtualMachine, millis| {
            look_again(vm, Timestamp::UNIX_EPOCH + SignedDuration::from_millis(millis))
        };
        let vm = deleted(node("a", &labels, &["10.0.0.1"]));
        assert_eq!(after(&vm, 0), Some(POLL_INTERVAL));
        assert_eq!(after(&vm, 2900), Some(Duration::from_millis(100)));
        assert_eq!(after(&vm, 3000), None);
        assert_eq!(after(&vm, 60_000), None);
        assert_eq!(after(&deleted(node("a", &labels, &[])), 0), None, "it never served");
        assert_eq!(after(&node("a", &labels, &["10.0.0.1"]), 0), None);
    }
}
