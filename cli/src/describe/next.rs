//! What to do about a blocking cause: the next command to run, for the causes that admins meet most.

use super::cause::Blocking;

/// The next command, or the next place to look.
pub fn next(blocking: &Blocking) -> Option<String> {
    let (kind, path) = blocking.object.split_once(' ')?;
    let (namespace, name) = path.split_once('/')?;
    let Blocking { reason, message, .. } = blocking;
    let said = |word: &str| reason.contains(word) || message.contains(word);
    let command = match kind {
        _ if reason == "NotReported" => controller(kind)?,
        "VirtualMachine" | "WCPMachine" if said("VirtualMachineClass") => {
            format!("kubectl get virtualmachineclassbindings -n {namespace}")
        }
        "VirtualMachine" | "WCPMachine" if said("VirtualMachineImage") => {
            "kubectl get virtualmachineimages,tkr".to_owned()
        }
        "TanzuKubernetesCluster" if said("version") || said("TanzuKubernetesRelease") => {
            "kubectl get tkr".to_owned()
        }
        _ if reason == "StorageNotReady" || said("torage class") || said("StorageClass") => {
            format!("kubectl describe resourcequotas -n {namespace}")
        }
        "VirtualMachine" if said("WaitingForAddress") || said("Network") => {
            format!("kubectl describe virtualnetworks -n {namespace}")
        }
        _ if reason == "ProviderNotReady" => {
            "kubectl logs -n vmware-system-vmop deployment/vmware-system-vmop-controller-manager".to_owned()
        }
        // The log of the guest is not to be had from here; the message says where it is.
        "Machine" if reason == "WaitingForNode" => {
            format!("kubectl get virtualmachine {name} -n {namespace} -o yaml")
        }
        _ => format!("kubectl describe {} {name} -n {namespace}", kind.to_lowercase()),
    };
    Some(command)
}

/// Where nobody reports, nobody may be at work.
fn controller(kind: &str) -> Option<String> {
    let namespace = match kind {
        "TanzuKubernetesCluster" => "vmware-system-tkg",
        "WCPCluster" | "WCPMachine" => "vmware-system-capw",
        kind if kind.starts_with("VirtualMachine") => "vmware-system-vmop",
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
        let table = [
            (
                "VirtualMachine ns/c-1",
                "VirtualMachineClassBindingNotFound",
                "not bound",
                "kubectl get virtualmachineclassbindings -n ns",
            ),
            (
                "VirtualMachine ns/c-1",
                "VirtualMachineImageNotFound",
                "no image",
                "kubectl get virtualmachineimages,tkr",
            ),
            (
                "VirtualMachine ns/c-1",
                "WaitingForAddress",
                "no address",
                "kubectl describe virtualnetworks -n ns",
            ),
            (
                "VirtualMachine ns/c-1",
                "StorageClassNotAssigned",
                "no",
                "kubectl describe resourcequotas -n ns",
            ),
            (
                "VirtualMachine ns/c-1",
                "InsufficientResourcesFault",
                "memory",
                "kubectl describe virtualmachine c-1 -n ns",
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
            assert_eq!(next(&blocking).as_deref(), Some(command), "{reason}");
        }
    }
}
