//! Reads the report that a guest writes during its first boot, and derives the cause of a failure and a remedy, without I/O. The
//! report only matters until the guest's node has joined.

use api::capi::Machine;
use api::conditions::{self, TRUE, vmop, wcp_machine as reasons};
use api::vmop::VirtualMachine;
use kit::events::describe_object;
use kube::ResourceExt;

use crate::upstream::has_node;

/// The reason why a running VM isn't a node yet, as reported by its guest.
pub struct FirstBoot {
    /// A condition reason that VirtualMachine or WCPMachine defines.
    pub reason: &'static str,
    /// The cause and the remedy.
    pub message: String,
}

/// Phrases that a cause may contain, and the remedy for it. The first match wins. Remedies don't name TanzuKubernetesCluster
/// fields, because capw also serves plain clusters: [`api::gcm::remedy`] adds these fields.
const REMEDIES: [(&[&str], &str); 10] = [
    (
        &["no space left on device"],
        "Give the node a larger disk: another image, or a volume for /var/lib/containerd",
    ),
    (
        &["not yet valid", "has expired"],
        "Set the clock: check the time of the ESXi hosts and the NTP servers of the nodes",
    ),
    (&["unknown authority", "certificate signed by"], "Give the nodes the registry's certificate authority"),
    (
        &["failed to pull image", "ImagePull", "toomanyrequests"],
        "Check that the registry serves this image and that nodes can reach it. Check their proxy and certificate authorities, or use a node image that contains the image",
    ),
    (
        &["this version of kubeadm", "kubelet version is higher", "Kubelet version"],
        "The node image contains another version of Kubernetes than its OVF properties say. Use an image whose properties are correct",
    ),
    (
        &["is in use"],
        "Another program in the node image listens there, or the image was taken from a former node. Use a clean node image",
    ),
    (
        &["is not empty", "already exists"],
        "The node image or its volume contains files of another node. Use a clean node image and empty volumes",
    ),
    (
        &["Module ", "modprobe", "bridge-nf-call-iptables", "ip_forward"],
        "Use a node image whose kernel contains and loads the module (br_netfilter, overlay)",
    ),
    (&["available CPUs", "system RAM"], "Use a larger virtual machine class"),
    (
        &[
            "identity of the API Server",
            "connection refused",
            "i/o timeout",
            "deadline exceeded",
            "timed out",
        ],
        "Check that the node can reach the cluster's endpoint on port 6443, and that the control plane is running",
    ),
];

/// Tells the user how to find the full output.
const ADVICE: &str = "Read guestinfo.vmservice.bootstrap.log in the VM's ExtraConfig, or /var/log/cloud-init-output.log in the guest";

/// Returns the guest's report, or `None` if it is missing, the Machine is unknown, or the Machine's node has joined. After a
/// complete first boot, returns a report only if the readiness probe fails.
pub fn first_boot(vm: &VirtualMachine, machine: Option<&Machine>) -> Option<FirstBoot> {
    if machine.is_none_or(has_node) {
        return None;
    }
    let seen = vm.status.as_ref()?;
    let boot = conditions::find(&seen.conditions, vmop::GUEST_BOOTSTRAP)?;
    let text = boot.message.as_deref().filter(|text| !text.is_empty());
    let (name, own) = (describe_object(vm), boot.reason.as_deref());
    // The guest controls its report, so only known reasons are used.
    let (reason, message) = match (boot.status.as_ref(), own) {
        (TRUE, _) => return unreached(vm),
        (conditions::UNKNOWN, _) => {
            (vmop::NO_BOOTSTRAP_STATUS, format!("{name}: {}", text.unwrap_or("no report")))
        }
        (_, Some(vmop::BOOTSTRAP_IN_PROGRESS)) => (
            vmop::BOOTSTRAP_IN_PROGRESS,
            format!("{name}: {}. {ADVICE}", text.unwrap_or("the first boot is taking long")),
        ),
        _ => {
            let text = text.or(own).unwrap_or("the first boot failed");
            let again = machine.map(|machine| {
                format!(". Then delete Machine {}: Cluster API creates another one", machine.name_any())
            });
            (vmop::BOOTSTRAP_FAILED, format!("{name}: {text}. {}{}", remedy(text), again.unwrap_or_default()))
        }
    };
    Some(FirstBoot { reason, message })
}

/// Returns a report if the guest has booted but the readiness probe fails. In this case, Cluster API doesn't see the node join
/// either.
fn unreached(vm: &VirtualMachine) -> Option<FirstBoot> {
    let ready = conditions::find(&vm.status.as_ref()?.conditions, conditions::READY)?;
    let failed = ready.status == conditions::FALSE && ready.reason.as_deref() == Some(vmop::NOT_READY);
    let why = ready.message.as_deref().filter(|_| failed)?;
    let message = format!(
        "{}: The first boot is complete. {why}. Check that the management cluster can reach this address: its VLAN, routes and firewalls",
        describe_object(vm)
    );
    Some(FirstBoot { reason: reasons::NODE_NOT_REACHED, message })
}

/// Returns the remedy for a cause, and how to find the full output.
fn remedy(text: &str) -> String {
    let fits = |words: &&[&str]| words.iter().any(|word| text.to_lowercase().contains(&word.to_lowercase()));
    let known = REMEDIES.iter().find(|(words, _)| fits(words));
    known.map_or_else(|| ADVICE.to_owned(), |(_, remedy)| format!("{remedy}. {ADVICE}"))
}

#[cfg(test)]
mod tests {
    use api::capi::{MachineStatus, MachineStatusNodeRef};
    use api::conditions::Condition;

    use super::*;
    use crate::fixtures::machine;

    fn boot(condition: Condition) -> Option<FirstBoot> {
        first_boot(&vm(condition), Some(&machine(true)))
    }

    fn vm(condition: Condition) -> VirtualMachine {
        let mut vm = VirtualMachine::default();
        vm.metadata.name = Some("cp-0".into());
        vm.metadata.namespace = Some("ns".into());
        vm.status.get_or_insert_default().conditions = vec![condition];
        vm
    }

    fn failed(reason: &str, text: &str) -> Condition {
        Condition::is_false(vmop::GUEST_BOOTSTRAP, "Warning", reason, text)
    }

    #[test]
    fn a_failure_has_its_cause_and_a_remedy() {
        let causes = [
            "kubeadm init failed: Port 10259 is in use",
            "kubeadm init failed: failed to pull image registry.example/pause:3.10: not found",
            "kubeadm init failed: failed to pull image r/x: x509: certificate signed by unknown authority",
            "kubeadm join failed: x509: certificate has expired or is not yet valid",
            "kubeadm init failed: error execution phase certs: write /etc/x: no space left on device",
            "kubeadm init failed: /proc/sys/net/bridge/bridge-nf-call-iptables does not exist",
            "kubeadm init failed: the number of available CPUs 1 is less than the required 2",
            "kubeadm join failed: couldn't validate the identity of the API Server: timed out",
            "kubeadm init failed: this version of kubeadm only supports deploying clusters with the control plane version >= 1.35.0. Current version: v1.33.1",
            "kubeadm init failed: the kubelet version is higher than the control plane version",
            "kubeadm init failed: nobody knows this",
        ];
        let boots = causes.map(|cause| boot(failed("BootstrapFailed", cause)).unwrap());
        assert!(boots.iter().all(|boot| boot.reason == "BootstrapFailed"));
        insta::assert_snapshot!(boots.map(|boot| boot.message).join("\n"));
    }

    #[test]
    fn a_guest_that_booted_and_is_not_reached_is_no_guest_that_boots() {
        let mut vm = vm(Condition::is_true(vmop::GUEST_BOOTSTRAP));
        assert!(first_boot(&vm, Some(&machine(true))).is_none());
        let why = "The readiness probe fails: 10.1.2.3:6443: connection refused";
        let silent = Condition::is_false(conditions::READY, "Info", vmop::NOT_READY, why);
        vm.status.as_mut().unwrap().conditions.push(silent.clone());
        let boot = first_boot(&vm, Some(&machine(true))).unwrap();
        assert_eq!(boot.reason, "NodeNotReached");
        insta::assert_snapshot!(boot.message, @"VirtualMachine ns/cp-0: The first boot is complete. The readiness probe fails: 10.1.2.3:6443: connection refused. Check that the management cluster can reach this address: its VLAN, routes and firewalls");
        vm.status.as_mut().unwrap().conditions = vec![silent];
        assert!(first_boot(&vm, Some(&machine(true))).is_none(), "its API server is not there yet");
    }

    #[test]
    fn gcm_finds_the_remedies_to_which_it_adds_fields() {
        for (remedy, field) in api::gcm::remedy::FIELDS {
            assert!(REMEDIES.iter().any(|(_, text)| text.contains(remedy)), "{field}: {remedy}");
        }
        assert!(REMEDIES.iter().all(|(_, text)| !text.contains("spec.")));
    }

    #[test]
    fn a_reason_is_never_the_guests_own_word() {
        for (condition, reason) in [
            (failed("WaitingForBootstrapData", ""), "BootstrapFailed"),
            (failed("BootstrapInProgress", "x"), "BootstrapInProgress"),
            (Condition::is_unknown(vmop::GUEST_BOOTSTRAP, "NoBootstrapStatus", "x"), "NoBootstrapStatus"),
        ] {
            assert_eq!(boot(condition).unwrap().reason, reason);
        }
    }

    #[test]
    fn a_node_that_joined_needs_no_report() {
        let vm = vm(failed("BootstrapFailed", "x"));
        let mut machine = machine(true);
        assert!(first_boot(&vm, Some(&machine)).is_some());
        assert!(first_boot(&vm, None).is_none());
        let node_ref = Some(MachineStatusNodeRef { name: "cp-0".into() });
        machine.status = Some(MachineStatus { node_ref, ..MachineStatus::default() });
        assert!(first_boot(&vm, Some(&machine)).is_none());
        assert!(boot(Condition::is_true(vmop::GUEST_BOOTSTRAP)).is_none());
    }
}
