//! Suggests the next command for the most common blocking causes.

use api::conditions::tree::NOT_REPORTED;
use api::conditions::{capi, tkc, vcenter, vmop};
use api::names::{CAPW_NAMESPACE, GCM_NAMESPACE, VMOP_NAMESPACE};

use super::cause::Blocking;

/// Reasons that concern an image.
const OF_IMAGE: [&str; 2] = [vmop::VIRTUAL_MACHINE_IMAGE_NOT_FOUND, vmop::VIRTUAL_MACHINE_IMAGE_NOT_READY];
/// Reasons that concern a storage class.
const OF_STORAGE: [&str; 2] = [vmop::STORAGE_NOT_READY, vmop::STORAGE_CLASS_REQUIRED];

/// Reasons that concern vCenter. `layercake doctor` finds the object and the remedy.
const OF_SITE: [&str; 4] =
    [vmop::DATASTORE_NOT_FOUND, vmop::NETWORK_NOT_READY, vcenter::NO_PERMISSION, vcenter::NOT_FOUND];

/// Reasons that concern a first boot, which the node's console shows.
const OF_BOOT: [&str; 5] = [
    vmop::BOOTSTRAP_FAILED,
    vmop::BOOTSTRAP_IN_PROGRESS,
    vmop::NO_BOOTSTRAP_STATUS,
    vmop::WAITING_FOR_ADDRESS,
    tkc::WAITING_FOR_NODE,
];

/// Returns the command to run next, or `None` for a kind whose controller isn't known. `consoles` is true if node
/// consoles can be read on this host.
pub fn next(blocking: &Blocking, consoles: bool) -> Option<String> {
    let (kind, path) = blocking.object.split_once(' ')?;
    let (namespace, name) = path.split_once('/')?;
    let reason = blocking.reason.as_str();
    let command = match kind {
        _ if reason == NOT_REPORTED => controller(kind)?,
        _ if blocking.is_pause() => blocking.message.split_once("To resume: ")?.1.to_owned(),
        "VirtualMachine" | "WCPMachine" if reason == vmop::VIRTUAL_MACHINE_CLASS_NOT_FOUND => {
            "kubectl get virtualmachineclasses".to_owned()
        }
        "VirtualMachine" | "WCPMachine" if reason == vmop::VIRTUAL_MACHINE_CLASS_BINDING_NOT_FOUND => {
            format!("kubectl get virtualmachineclassbindings -n {namespace}")
        }
        "VirtualMachine" | "WCPMachine" if OF_IMAGE.contains(&reason) => {
            "kubectl get virtualmachineimages,tkr".to_owned()
        }
        "Cluster" if reason == capi::TOPOLOGY_RECONCILE_FAILED => {
            format!("kubectl get clusterclasses -n {namespace}")
        }
        "TanzuKubernetesCluster" if reason == tkc::INVALID => "kubectl get tkr".to_owned(),
        _ if blocking.message.contains("exceeded quota") => {
            format!("kubectl describe resourcequotas -n {namespace}")
        }
        _ if OF_STORAGE.contains(&reason) => {
            format!("kubectl get storageclasses,resourcequotas -n {namespace}")
        }
        // A node's Machine, WCPMachine and VirtualMachine share one name.
        "Machine" | "WCPMachine" | "VirtualMachine" if consoles && OF_BOOT.contains(&reason) => {
            format!("layercake console {name} -n {namespace}")
        }
        _ if reason == vmop::PROVIDER_NOT_READY => {
            "kubectl logs -n vmware-system-vmop deployment/vmware-system-vmop-controller-manager".to_owned()
        }
        // The guest's log isn't available here. The message says where it is.
        "Machine" if reason == tkc::WAITING_FOR_NODE => {
            format!("kubectl get virtualmachine {name} -n {namespace} -o yaml")
        }
        "WCPMachine" | "VirtualMachine" if OF_SITE.contains(&reason) => "layercake doctor".to_owned(),
        _ => format!("kubectl describe {} {name} -n {namespace}", kind.to_lowercase()),
    };
    Some(command)
}

/// Returns a command that shows if the kind's controller is running, or `None` if the controller isn't known.
fn controller(kind: &str) -> Option<String> {
    let namespace = match kind {
        "TanzuKubernetesCluster" => GCM_NAMESPACE,
        "WCPCluster" | "WCPMachine" => CAPW_NAMESPACE,
        kind if kind.starts_with("VirtualMachine") => VMOP_NAMESPACE,
        "Cluster" | "Machine" | "MachineDeployment" => "capi-system",
        "KubeadmControlPlane" => "capi-kubeadm-control-plane-system",
        _ => return None,
    };
    Some(format!("kubectl get deployments,leases -n {namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frequent_cause_has_its_next_command() {
        const VM: &str = "VirtualMachine ns/c-1";
        let table = [
            (
                VM,
                "VirtualMachineClassBindingNotFound",
                "not bound",
                "kubectl get virtualmachineclassbindings -n ns",
            ),
            (VM, "VirtualMachineClassNotFound", "no class", "kubectl get virtualmachineclasses"),
            (VM, "VirtualMachineImageNotFound", "no image", "kubectl get virtualmachineimages,tkr"),
            (VM, "WaitingForAddress", "no address", "kubectl describe virtualmachine c-1 -n ns"),
            (VM, "StorageNotReady", "no", "kubectl get storageclasses,resourcequotas -n ns"),
            (VM, "InsufficientResourcesFault", "memory", "kubectl describe virtualmachine c-1 -n ns"),
            (VM, "DatastoreNotFound", "no datastore", "layercake doctor"),
            ("Cluster ns/c", "ReconcileFailed", "not found", "kubectl get clusterclasses -n ns"),
            (
                "WCPMachine ns/c-1",
                "VMCreationFailed",
                "exceeded quota: team",
                "kubectl describe resourcequotas -n ns",
            ),
            (
                "VirtualMachineService ns/s",
                "WaitingForLoadBalancerIP",
                "no",
                "kubectl describe virtualmachineservice s -n ns",
            ),
            ("WCPCluster ns/c", "NotReported", "", "kubectl get deployments,leases -n vmware-system-capw"),
        ];
        for (object, reason, message, command) in table {
            let blocking = Blocking { object: object.into(), reason: reason.into(), message: message.into() };
            assert_eq!(next(&blocking, false).as_deref(), Some(command), "{reason}");
        }
    }

    #[test]
    fn a_first_boot_is_looked_at_on_its_console_where_it_has_one() {
        for (object, reason) in [
            ("WCPMachine ns/c-1", "BootstrapFailed"),
            ("WCPMachine ns/c-1", "NoBootstrapStatus"),
            ("Machine ns/c-1", "WaitingForNode"),
            ("VirtualMachine ns/c-1", "WaitingForAddress"),
        ] {
            let blocking = Blocking { object: object.into(), reason: reason.into(), message: String::new() };
            assert_eq!(next(&blocking, true).as_deref(), Some("layercake console c-1 -n ns"));
            assert!(next(&blocking, false).unwrap().starts_with("kubectl "));
        }
    }
}
