//! Validates class sizes against vSphere's limits. Admission, `layercake lint`, `layercake doctor` and the VM operator
//! share these rules. Limits that depend on hosts or images are checked only by the VM operator.

use super::class::{ResourceSpec, VirtualMachineClassHardware, VirtualMachineClassSpec};
use crate::Quantity;

/// The minimum size of VM memory, in MiB. The size must be a multiple of it.
const MEMORY_STEP_MIB: i128 = 4;
/// One MiB in thousandths of a byte, as [`Quantity::millis`] counts.
const MIB: i128 = 1000 * 1024 * 1024;
/// The maximum disk size, in MiB: 62 TiB.
pub const LARGEST_DISK_MIB: i64 = 62 * 1024 * 1024;

/// A class field whose size vSphere rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeFault {
    /// The field path, starting with `spec.`.
    pub field: &'static str,
    /// The reason, worded to follow the field's name in a sentence.
    pub reason: String,
    /// The remedy as a sentence without its period.
    pub remedy: String,
}

impl SizeFault {
    fn new(field: &'static str, reason: String, remedy: impl Into<String>) -> Self {
        Self { field, reason, remedy: remedy.into() }
    }
}

/// Returns the class fields whose sizes vSphere rejects at every site. Malformed quantities are skipped, because the schema
/// rejects them.
pub fn size_faults(spec: &VirtualMachineClassSpec) -> Vec<SizeFault> {
    let resources = spec.policies.as_ref().and_then(|policies| policies.resources.as_ref());
    let (requests, limits) =
        resources.map_or((None, None), |both| (both.requests.as_ref(), both.limits.as_ref()));
    let hardware = spec.hardware.as_ref();
    let faults = [
        hardware.and_then(cpus),
        hardware.and_then(|hardware| cores(spec, hardware)),
        hardware.and_then(|hardware| memory_step(hardware.memory.as_ref()?)),
        hardware.zip(requests).and_then(|(hardware, requests)| reserved(hardware, requests)),
        requests.zip(limits).and_then(|(requests, limits)| memory_limit(requests, limits)),
        requests.zip(limits).and_then(|(requests, limits)| cpu_limit(requests, limits)),
    ];
    faults.into_iter().flatten().collect()
}

fn cpus(hardware: &VirtualMachineClassHardware) -> Option<SizeFault> {
    let cpus = hardware.cpus.filter(|cpus| *cpus < 1)?;
    Some(SizeFault::new("spec.hardware.cpus", format!("{cpus} is not positive"), "Set it to 1 or more"))
}

/// Checks that the CPU count is a multiple of the cores per socket.
fn cores(spec: &VirtualMachineClassSpec, hardware: &VirtualMachineClassHardware) -> Option<SizeFault> {
    let cores = spec.config_spec.as_ref()?.get("numCoresPerSocket")?.as_i64().filter(|cores| *cores > 0)?;
    let cpus = hardware.cpus.filter(|cpus| *cpus > 0 && cpus % cores != 0)?;
    let reason = format!("{cores} cores per socket do not divide {cpus} CPUs");
    Some(SizeFault::new("spec.configSpec.numCoresPerSocket", reason, "Use a divisor of the CPUs"))
}

fn memory_step(memory: &Quantity) -> Option<SizeFault> {
    let millis = memory.millis().ok()?;
    let step = MEMORY_STEP_MIB * MIB;
    if millis >= step && millis % step == 0 {
        return None;
    }
    let below = (millis / step).max(1) * MEMORY_STEP_MIB;
    let remedy = format!("Use {below}Mi or {}Mi", below + MEMORY_STEP_MIB);
    let reason = format!("{} is not a multiple of {MEMORY_STEP_MIB} MiB, as vSphere requires", memory.0);
    Some(SizeFault::new("spec.hardware.memory", reason, remedy))
}

fn reserved(hardware: &VirtualMachineClassHardware, requests: &ResourceSpec) -> Option<SizeFault> {
    let (memory, reserved) = (hardware.memory.as_ref()?, requests.memory.as_ref()?);
    if reserved.millis().ok()? <= memory.millis().ok()? {
        return None;
    }
    let reason = format!("{} is more than the memory of a VM of this class, {}", reserved.0, memory.0);
    Some(SizeFault::new("spec.policies.resources.requests.memory", reason, "Reserve at most the memory"))
}

fn memory_limit(requests: &ResourceSpec, limits: &ResourceSpec) -> Option<SizeFault> {
    let (reserved, limit) = (requests.memory.as_ref()?, limits.memory.as_ref()?);
    limit_fault("spec.policies.resources.limits.memory", reserved, limit)
}

/// Checks that the CPU limit isn't below the reservation. Returns `None` if one is in cores and the other in hertz, because the
/// comparison would depend on the hosts' clock rate.
fn cpu_limit(requests: &ResourceSpec, limits: &ResourceSpec) -> Option<SizeFault> {
    let (reserved, limit) = (requests.cpu.as_ref()?, limits.cpu.as_ref()?);
    let counts_cores = |cpu: &Quantity| cpu.millis().is_ok_and(|millis| millis < 1_000_000);
    if counts_cores(reserved) != counts_cores(limit) {
        return None;
    }
    limit_fault("spec.policies.resources.limits.cpu", reserved, limit)
}

/// Checks that a limit isn't below its reservation. A limit of 0 means unlimited.
fn limit_fault(field: &'static str, reserved: &Quantity, limit: &Quantity) -> Option<SizeFault> {
    let (of, most) = (reserved.millis().ok()?, limit.millis().ok()?);
    (most > 0 && most < of).then(|| {
        let reason = format!("{} is less than the reservation, {}", limit.0, reserved.0);
        SizeFault::new(field, reason, "Raise the limit, or lower the reservation")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(spec: serde_json::Value) -> Vec<String> {
        let spec = serde_json::from_value(spec).unwrap();
        size_faults(&spec)
            .into_iter()
            .map(|fault| format!("{}: {}. {}", fault.field, fault.reason, fault.remedy))
            .collect()
    }

    #[test]
    fn sizes_that_vsphere_refuses_are_named_with_the_field() {
        let memory = |memory: &str| fields(json!({"hardware": {"cpus": 1, "memory": memory}}));
        for good in ["4Mi", "1028Mi", "1Gi", "64Gi", "4194304"] {
            assert_eq!(memory(good), Vec::<String>::new(), "{good}");
        }
        for (bad, remedy) in
            [("1000M", "Use 952Mi or 956Mi"), ("1026Mi", "Use 1024Mi or 1028Mi"), ("2Mi", "Use 4Mi or 8Mi")]
        {
            let found = memory(bad);
            assert!(
                found.len() == 1 && found[0].contains("spec.hardware.memory") && found[0].ends_with(remedy),
                "{found:?}"
            );
        }
        let over = fields(json!({"hardware": {"cpus": 0, "memory": "1Gi"}, "policies": {"resources": {
            "requests": {"memory": "2Gi", "cpu": "2000M"}, "limits": {"memory": "1Gi", "cpu": "1000M"}}}}));
        assert_eq!(
            over,
            [
                "spec.hardware.cpus: 0 is not positive. Set it to 1 or more",
                "spec.policies.resources.requests.memory: 2Gi is more than the memory of a VM of this class, 1Gi. Reserve at most the memory",
                "spec.policies.resources.limits.memory: 1Gi is less than the reservation, 2Gi. Raise the limit, or lower the reservation",
                "spec.policies.resources.limits.cpu: 1000M is less than the reservation, 2000M. Raise the limit, or lower the reservation",
            ]
        );
        let sockets =
            fields(json!({"hardware": {"cpus": 5, "memory": "1Gi"}, "configSpec": {"numCoresPerSocket": 2}}));
        assert!(sockets[0].contains("2 cores per socket do not divide 5 CPUs"), "{sockets:?}");
        let unlimited = json!({"hardware": {"cpus": 1, "memory": "1Gi"}, "policies": {"resources": {
            "requests": {"memory": "1Gi", "cpu": "500m"}, "limits": {"memory": "0", "cpu": "2000M"}}}});
        assert_eq!(fields(unlimited), Vec::<String>::new());
    }
}
