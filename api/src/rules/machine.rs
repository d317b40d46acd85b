//! Validation rules for VirtualMachines.

use super::rule::{Rule, fixed, once_set, only, rule, rules_at};

const KIND: &str = "VirtualMachine";

/// Returns all rules for v1alpha1, and the claim rules for v1alpha2, in which only claims can be changed.
pub(super) fn all() -> Vec<Rule> {
    let mut rules = bootstrap_and_probe();
    rules.extend(networks());
    rules.extend(volumes());
    rules.extend(immutable());
    rules.extend(while_off());
    rules.extend(while_on());
    rules.extend(power());
    let mut rules: Vec<_> = rules.into_iter().map(|rule| only(&["v1alpha1"], rule)).collect();
    rules.push(claims());
    rules
}

fn bootstrap_and_probe() -> Vec<Rule> {
    vec![
        rule(
            KIND,
            "spec.vmMetadata",
            "!(has(self.configMapName) && self.configMapName != '' && has(self.secretName) && self.secretName != '')",
            "configMapName and secretName cannot be specified simultaneously",
        ),
        rule(
            KIND,
            "spec.readinessProbe",
            "has(self.tcpSocket) || has(self.guestHeartbeat)",
            "must specify an action: tcpSocket or guestHeartbeat",
        ),
        rule(
            KIND,
            "spec.readinessProbe",
            "!(has(self.tcpSocket) && has(self.guestHeartbeat))",
            "only one action can be specified: tcpSocket or guestHeartbeat",
        ),
    ]
}

fn networks() -> Vec<Rule> {
    let name = |of: &str| format!("(has({of}.networkName) ? {of}.networkName : '')");
    vec![
        rule(
            KIND,
            "spec.networkInterfaces",
            &format!("self.all(a, self.exists_one(b, {} == {}))", name("a"), name("b")),
            "networkName must be unique: a virtual machine can have only one interface on each network, including the default network",
        ),
        rule(
            KIND,
            "spec.networkInterfaces[]",
            "!has(self.networkType) || self.networkType in ['', 'nsx-t', 'vsphere-distributed']",
            "networkType has the supported values nsx-t and vsphere-distributed, or is empty for a network of vCenter \
             by its name",
        ),
        rule(
            KIND,
            "spec.networkInterfaces[]",
            "!has(self.ethernetCardType) || \
             self.ethernetCardType in ['', 'pcnet32', 'e1000', 'e1000e', 'vmxnet2', 'vmxnet3']",
            "ethernetCardType has the supported values pcnet32, e1000, e1000e, vmxnet2 and vmxnet3",
        ),
        rule(
            KIND,
            "spec.networkInterfaces[].providerRef",
            "self.apiGroup == 'netoperator.vmware.com' && self.kind == 'NetworkInterface'",
            "providerRef can only be a NetworkInterface of netoperator.vmware.com",
        ),
    ]
}

fn volumes() -> Vec<Rule> {
    vec![
        rule(
            KIND,
            "spec.volumes[]",
            "has(self.persistentVolumeClaim) != has(self.vSphereVolume)",
            "only one of persistentVolumeClaim or vSphereVolume must be specified",
        ),
        rule(
            KIND,
            "spec.advancedOptions.defaultVolumeProvisioningOptions",
            "!(has(self.thinProvisioned) && self.thinProvisioned && has(self.eagerZeroed) && self.eagerZeroed)",
            "Volume provisioning cannot have EagerZeroed and ThinProvisioning set. Eager zeroing requires thick \
             provisioning",
        ),
    ]
}

fn claims() -> Rule {
    rule(
        KIND,
        "spec.volumes[].persistentVolumeClaim",
        "!has(self.readOnly) || !self.readOnly",
        "readOnly is not supported: supported values: false",
    )
}

fn immutable() -> Vec<Rule> {
    vec![
        rule(KIND, "spec.imageName", "self == oldSelf", "imageName: field is immutable"),
        rule(KIND, "spec", &fixed("storageClass"), "storageClass: field is immutable"),
        rule(KIND, "spec", &fixed("resourcePolicyName"), "resourcePolicyName: field is immutable"),
        rule(
            KIND,
            "spec",
            &once_set("biosUUID"),
            "biosUUID may not be changed once it is set: it is the identity of the virtual machine",
        ),
        rule(
            KIND,
            "spec",
            &once_set("instanceUUID"),
            "instanceUUID may not be changed once it is set: it is the identity of the virtual machine",
        ),
    ]
}

/// The expression for a virtual machine that should be powered off, and isn't known to be in another power state.
const OFF: &str = "(has(self.spec.powerState) && self.spec.powerState == 'poweredOff' && \
                   (!has(self.status) || !has(self.status.powerState) || self.status.powerState == 'poweredOff'))";

/// Returns rules for changes that require a powered-off virtual machine. They apply at the object root, where the
/// status is visible.
fn while_off() -> Vec<Rule> {
    let version = "spec.minHardwareVersion";
    vec![
        rule(
            KIND,
            "",
            &format!("self.spec.className == oldSelf.spec.className || {OFF}"),
            "spec.className: field is immutable unless the virtual machine is powered off: change the class while \
             spec.powerState and status.powerState are poweredOff, and set powerState to poweredOn afterwards",
        ),
        rule(
            KIND,
            "spec",
            "!has(oldSelf.minHardwareVersion) || \
             (has(self.minHardwareVersion) && self.minHardwareVersion >= oldSelf.minHardwareVersion)",
            "minHardwareVersion: cannot downgrade hardware version",
        ),
        rule(
            KIND,
            "",
            &format!("{} || {OFF}", fixed(version)),
            "spec.minHardwareVersion: cannot upgrade hardware version unless powered off: change it while \
             spec.powerState and status.powerState are poweredOff, and set powerState to poweredOn afterwards",
        ),
    ]
}

/// Returns rules for fields that can't change while a virtual machine stays powered on.
fn while_on() -> [Rule; 5] {
    let on = |of: &str| format!("(!has({of}.powerState) || {of}.powerState == 'poweredOn')");
    let frozen = |same: &str| format!("{same} || !({} && {})", on("oldSelf"), on("self"));
    let disks = |of: &str| format!("(has({of}.volumes) ? {of}.volumes.filter(v, has(v.vSphereVolume)) : [])");
    let options = "advancedOptions.defaultVolumeProvisioningOptions";
    let has_options = |of: &str| format!("(has({of}.advancedOptions) && has({of}.{options}))");
    let same_options = format!(
        "{} || ({new} == {old} && (!{new} || !{old} || self.{options} == oldSelf.{options}))",
        fixed("advancedOptions"),
        new = has_options("self"),
        old = has_options("oldSelf"),
    );
    let same_disks = format!("{} || {} == {}", fixed("volumes"), disks("self"), disks("oldSelf"));
    let rules = [
        (fixed("ports"), "ports: updates to this field is not allowed when VM power is on"),
        (fixed("vmMetadata"), "vmMetadata: updates to this field is not allowed when VM power is on"),
        (
            fixed("networkInterfaces"),
            "networkInterfaces: updates to this field is not allowed when VM power is on",
        ),
        (same_disks, "volumes[vSphereVolume]: updates to this field is not allowed when VM power is on"),
        (
            same_options,
            "advancedOptions.defaultVolumeProvisioningOptions: updates to this field is not allowed when VM power is on",
        ),
    ];
    rules.map(|(same, message)| rule(KIND, "spec", &frozen(&same), message))
}

fn power() -> [Rule; 2] {
    let rules = [
        (
            "!has(oldSelf.powerState) || has(self.powerState)",
            "powerState: cannot set power state to empty string",
        ),
        (
            "!(has(self.powerState) && self.powerState == 'suspended' && \
             has(oldSelf.powerState) && oldSelf.powerState == 'poweredOff')",
            "powerState: cannot suspend a VM that is powered off",
        ),
    ];
    rules_at(KIND, "spec", rules)
}
