//! Checks VirtualMachineClass sizes with the rules of admission and the VM operator.

use api::vmop::{VirtualMachineClass, size_faults};

use super::finding::Finding;
use super::tree::YamlNode;

/// Returns a finding for each size that vSphere refuses for every VM.
pub fn check_class(document: &YamlNode) -> Vec<Finding> {
    // The schema check reports values that cannot be parsed.
    let Ok(class) = serde_json::from_value::<VirtualMachineClass>(document.to_json()) else {
        return Vec::new();
    };
    let faults = size_faults(&class.spec).into_iter();
    faults
        .map(|fault| Finding::error(document.find(fault.field).0, fault.field, fault.reason, fault.remedy))
        .collect()
}
