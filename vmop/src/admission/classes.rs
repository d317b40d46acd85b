//! Rules for VirtualMachineClasses.

use api::vmop::{VirtualMachineClass, size_faults};

use super::denial::Denial;

/// Returns the denials for sizes that vSphere rejects. Invalid sizes that the stored class already contains don't block other
/// changes.
pub fn class_denials(new: &VirtualMachineClass, old: Option<&VirtualMachineClass>) -> Vec<Denial> {
    let before = old.map(|old| size_faults(&old.spec)).unwrap_or_default();
    let faults = size_faults(&new.spec).into_iter().filter(|fault| !before.contains(fault));
    faults
        .map(|fault| Denial::new(fault.field, format!("Invalid value: {}. {}", fault.reason, fault.remedy)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(memory: &str, cpus: i64) -> VirtualMachineClass {
        let spec = serde_json::json!({"hardware": {"cpus": cpus, "memory": memory}});
        VirtualMachineClass::new("c", serde_json::from_value(spec).unwrap())
    }

    fn texts(new: &VirtualMachineClass, old: Option<&VirtualMachineClass>) -> Vec<String> {
        class_denials(new, old).iter().map(Denial::to_string).collect()
    }

    #[test]
    fn a_class_needs_a_size_that_vsphere_takes() {
        let odd = class("1026Mi", 1);
        let reason = "1026Mi is not a multiple of 4 MiB, as vSphere requires. Use 1024Mi or 1028Mi";
        assert_eq!(texts(&odd, None), [format!("spec.hardware.memory: Invalid value: {reason}")]);
        assert!(texts(&class("1Gi", 1), None).is_empty());
        assert!(texts(&class("1026Mi", 2), Some(&odd)).is_empty(), "what was stored before stays");
    }
}
