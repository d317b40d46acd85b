//! Messages for VMs that vCenter can't access.

use vsphere::Vm;

/// Describes why a VM is unavailable, in vSphere's terms, and the remedy.
///
/// The remedy must not remove the VM, because it may be running.
pub fn describe_unavailable(vsphere_vm: &Vm) -> String {
    let (name, id) = (&vsphere_vm.name, vsphere_vm.moref.id());
    let state = match vsphere_vm.connection_state.as_str() {
        "disconnected" => "is disconnected: vCenter has no connection to its host. Reconnect the host",
        "orphaned" => {
            "is orphaned: its host does not have it registered. Check that its host is connected, or register the VM again"
        }
        "inaccessible" => {
            "is inaccessible: its files can't be read. Check that its datastore is mounted and its host is connected"
        }
        "invalid" => {
            "is invalid: its configuration file can't be read. Check that its datastore is mounted, or restore the file"
        }
        _ => {
            "has a configuration that vCenter cannot read. If this lasts, check that its host is connected and its datastore is mounted"
        }
    };
    format!(
        "VM {name} ({id}) {state}. Until it is available again, VM Operator leaves it alone and reports its last known state"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn nobody_is_advised_to_remove_a_vm_that_is_away() {
        let mut vsphere_vm = fixtures::vsphere_vm();
        for state in ["connected", "disconnected", "orphaned", "inaccessible", "invalid", ""] {
            vsphere_vm.connection_state = state.to_owned();
            let message = describe_unavailable(&vsphere_vm).to_lowercase();
            assert!(["remove", "delete", "another"].iter().all(|word| !message.contains(word)), "{message}");
            assert!(message.contains("check that its ") || message.contains("reconnect"), "{message}");
        }
    }
}
