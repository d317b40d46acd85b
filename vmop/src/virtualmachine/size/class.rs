//! A VM's class, and the size that it defines.

use api::conditions::vmop as reason;
use api::vmop::{ResourceSpec, VirtualMachine, VirtualMachineClass, size_faults};
use kube::ResourceExt;
use vsphere::{Allocation, BaseConfig, Object};

use crate::unmet::Need;
use crate::unmet::Unmet;

/// The size of a VM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Size {
    /// The number of virtual CPUs.
    pub cpus: u32,
    pub memory_mib: i64,
    /// The CPU reservation and limit, in MHz.
    pub cpu: Allocation,
    /// The memory reservation and limit, in MiB.
    pub memory: Allocation,
    /// The class's settings besides CPU and memory, as a vSphere config spec, and its passthrough devices.
    pub config: Option<BaseConfig>,
}

impl Size {
    /// Returns 1, or `None` if the class sets the number of cores per socket. The template's number isn't kept, because it
    /// might not divide the class's CPU count.
    pub fn cores_per_socket(&self) -> Option<u32> {
        (!self.config.as_ref().is_some_and(BaseConfig::has_cores_per_socket)).then_some(1)
    }
}

/// Checks that the class exists and is bound to the namespace.
pub fn check_class<'a>(
    vm: &VirtualMachine,
    class: Option<&'a VirtualMachineClass>,
    bound: bool,
) -> Need<&'a VirtualMachineClass> {
    let name = &vm.spec.class_name;
    let Some(class) = class else {
        let message = format!("VirtualMachineClass {name} does not exist. Create it, or use another class");
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_CLASS_NOT_FOUND, message));
    };
    if !bound {
        let namespace = vm.namespace().unwrap_or_default();
        let message = format!(
            "VirtualMachineClass {name} is not bound to namespace {namespace}. Create a VirtualMachineClassBinding there"
        );
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_CLASS_BINDING_NOT_FOUND, message));
    }
    Ok(class)
}

/// Returns true if the class reserves or limits CPU in cores. The conversion to MHz needs the hosts' clock rate.
pub fn counts_cores(class: &VirtualMachineClass) -> bool {
    let resources = class.spec.policies.as_ref().and_then(|policies| policies.resources.as_ref());
    resources
        .is_some_and(|resources| [&resources.requests, &resources.limits].into_iter().flatten().any(in_cores))
}

/// Returns true if a CPU quantity is in cores.
pub fn in_cores(spec: &ResourceSpec) -> bool {
    let millis = spec.cpu.as_ref().and_then(|cpu| cpu.millis().ok());
    millis.is_some_and(|millis| millis > 0 && millis < HERTZ_FROM)
}

/// The quantity in thousandths from which a CPU quantity means hertz. Smaller quantities mean cores.
const HERTZ_FROM: i128 = 1_000_000;

/// Parses the size that a class defines. `megahertz` is the hosts' clock rate, which converts cores to MHz.
pub fn parse_size(class: &VirtualMachineClass, megahertz: i64) -> Need<Size> {
    let bad = |what: String| {
        let message = format!("VirtualMachineClass {}: {what}. Correct the class", class.name_any());
        Unmet::wrong(reason::VIRTUAL_MACHINE_CLASS_NOT_FOUND, message)
    };
    let hardware = class.spec.hardware.as_ref().ok_or_else(|| bad("spec.hardware is missing".into()))?;
    if let Some(fault) = size_faults(&class.spec).into_iter().next() {
        return Err(bad(format!("{}: {}. {}", fault.field, fault.reason, fault.remedy)));
    }
    let cpus = hardware.cpus.and_then(|cpus| u32::try_from(cpus).ok()).filter(|cpus| *cpus > 0);
    let memory = hardware.memory.as_ref().ok_or_else(|| bad("spec.hardware.memory is missing".into()))?;
    let memory_mib = memory.mib().map_err(|error| bad(format!("spec.hardware.memory: {error}")))?;
    if memory_mib <= 0 {
        return Err(bad("spec.hardware.memory is not positive".into()));
    }
    let resources = class.spec.policies.as_ref().and_then(|policies| policies.resources.as_ref());
    let (cpu, memory) = parse_allocations(
        resources.and_then(|resources| resources.requests.as_ref()),
        resources.and_then(|resources| resources.limits.as_ref()),
        megahertz,
    )
    .map_err(|error| bad(format!("spec.policies.resources: {error}")))?;
    Ok(Size {
        cpus: cpus.ok_or_else(|| bad("spec.hardware.cpus is not positive".into()))?,
        memory_mib,
        cpu,
        memory,
        config: config(class).map_err(bad)?,
    })
}

/// Rejects a size that none of the cluster's hosts can run. Otherwise vCenter would only reject the power-on. `threads` is the
/// largest number of threads that a host has, if known.
pub fn check_threads(vm: &VirtualMachine, size: Size, threads: Option<i64>) -> Need<Size> {
    let Some(threads) = threads.filter(|threads| *threads < i64::from(size.cpus)) else { return Ok(size) };
    let (class, cpus) = (&vm.spec.class_name, size.cpus);
    let message = format!(
        "VirtualMachineClass {class} has {cpus} CPUs, but no host of the VM's cluster has more than {threads} threads. Use a class with at most {threads} CPUs"
    );
    Err(Unmet::in_vcenter(reason::VIRTUAL_MACHINE_CLASS_NOT_FOUND, message))
}

/// The first device key of passthrough devices. Further keys decrease.
const NEW_DEVICE: i32 = -200;

/// ExtraConfig for VMs with passthrough devices, as in vm-operator: such a VM can't leave its host while it runs, and its
/// guest maps the devices above 4 GiB.
const OF_PASSTHROUGH: [(&str, &str); 3] =
    [("maintenance.vm.evacuation.poweroff", "TRUE"), (MMIO, "TRUE"), (MMIO_SIZE, "512")];
/// The ExtraConfig key that enables 64-bit memory-mapped I/O.
pub const MMIO: &str = "pciPassthru.use64bitMMIO";
/// The ExtraConfig key for the size of 64-bit memory-mapped I/O, in GiB.
pub const MMIO_SIZE: &str = "pciPassthru.64bitMMIOSizeGB";

/// Returns the class's config spec with its passthrough devices, and with the options of [`OF_PASSTHROUGH`] if there are any.
/// The error is a message.
fn config(class: &VirtualMachineClass) -> Result<Option<BaseConfig>, String> {
    let given = class.spec.config_spec.as_ref().filter(|given| !given.is_null());
    let read = given.map(BaseConfig::read).transpose().map_err(|why| format!("spec.configSpec: {why}"))?;
    let devices = class.spec.hardware.as_ref().and_then(|hardware| hardware.devices.as_ref());
    let Some(devices) = devices else { return Ok(read) };
    let shares = devices.vgpu_devices.iter().map(|share| {
        Object::new("VirtualPCIPassthroughVmiopBackingInfo").with("vgpu", share.profile_name.as_str())
    });
    let whole = devices.dynamic_direct_path_io_devices.iter().map(|device| {
        let number = |id: i64| i32::try_from(id).unwrap_or(-1);
        let allowed = Object::new("VirtualPCIPassthroughAllowedDevice")
            .with("vendorId", number(device.vendor_id))
            .with("deviceId", number(device.device_id));
        Object::new("VirtualPCIPassthroughDynamicBackingInfo")
            .with("deviceName", "")
            .with("allowedDevice", vec![allowed])
            .with_some("customLabel", device.custom_label.as_deref())
    });
    let backings = shares.chain(whole).zip(0i32..);
    let config = backings.fold(read, |config, (backing, at)| {
        let device =
            Object::new("VirtualPCIPassthrough").with("key", NEW_DEVICE - at).with("backing", backing);
        Some(config.unwrap_or_else(BaseConfig::empty).with_passthrough(device))
    });
    let passthrough = config.as_ref().is_some_and(BaseConfig::has_passthrough);
    Ok(if passthrough { config.map(|config| config.with_default_options(&OF_PASSTHROUGH)) } else { config })
}

/// Parses reservations and limits, and returns the CPU allocation in MHz and the memory allocation in MiB. Zero becomes `None`.
pub fn parse_allocations(
    requests: Option<&ResourceSpec>,
    limits: Option<&ResourceSpec>,
    megahertz: i64,
) -> Result<(Allocation, Allocation), api::quantity::NotAQuantity> {
    let cpu = |spec: Option<&ResourceSpec>| -> Result<Option<i64>, api::quantity::NotAQuantity> {
        let Some(quantity) = spec.and_then(|spec| spec.cpu.as_ref()) else { return Ok(None) };
        let millis = quantity.millis()?;
        // Cores or hertz. Rounded up, because a reservation is a guarantee.
        let scaled = if millis < HERTZ_FROM { millis * i128::from(megahertz) } else { millis / 1_000_000 };
        let mhz = scaled.div_euclid(1000) + i128::from(scaled.rem_euclid(1000) != 0);
        Ok(i64::try_from(mhz).ok().filter(|mhz| *mhz > 0))
    };
    let memory = |spec: Option<&ResourceSpec>| -> Result<Option<i64>, api::quantity::NotAQuantity> {
        let Some(quantity) = spec.and_then(|spec| spec.memory.as_ref()) else { return Ok(None) };
        Ok(Some(quantity.mib()?).filter(|mib| *mib > 0))
    };
    Ok((
        Allocation { reservation: cpu(requests)?, limit: cpu(limits)?, expandable: None },
        Allocation { reservation: memory(requests)?, limit: memory(limits)?, expandable: None },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(spec: &serde_json::Value) -> VirtualMachineClass {
        let class = serde_json::json!({ "metadata": { "name": "gpu" }, "spec": spec });
        serde_json::from_value(class).unwrap()
    }

    #[test]
    fn devices_and_settings_of_a_class_go_below_the_vm_s_own() {
        let spec = serde_json::json!({
            "hardware": { "cpus": 2, "memory": "4Gi", "devices": {
                "vgpuDevices": [{ "profileName": "grid_v100-4q" }],
                "dynamicDirectPathIODevices": [{ "vendorID": 4318, "deviceID": 7864, "customLabel": "ai" }],
            } },
            "configSpec": { "_typeName": "VirtualMachineConfigSpec", "numCoresPerSocket": 2 },
        });
        insta::assert_debug_snapshot!(parse_size(&class(&spec), 0).unwrap().config.unwrap());
    }

    #[test]
    fn sizes_that_no_vsphere_or_no_host_takes_are_refused_before_the_vm_is_created() {
        let odd = class(&serde_json::json!({ "hardware": { "cpus": 1, "memory": "1000M" } }));
        let unmet = parse_size(&odd, 0).unwrap_err();
        assert_eq!(
            unmet.message,
            "VirtualMachineClass gpu: spec.hardware.memory: 1000M is not a multiple of 4 MiB, as vSphere requires. Use 952Mi or 956Mi. Correct the class"
        );
        let many = class(&serde_json::json!({ "hardware": { "cpus": 200, "memory": "1Gi" } }));
        let size = parse_size(&many, 0).unwrap();
        let vm = crate::testing::fixtures::virtual_machine();
        let unmet = check_threads(&vm, size.clone(), Some(64)).unwrap_err();
        assert!(
            unmet.unwatched && unmet.message.contains("no host of the VM's cluster has more than 64 threads")
        );
        assert_eq!(check_threads(&vm, size.clone(), Some(200)), Ok(size.clone()));
        assert_eq!(check_threads(&vm, size.clone(), None), Ok(size));
    }

    #[test]
    fn a_class_that_can_not_be_used_says_why() {
        let spec = serde_json::json!({
            "hardware": { "cpus": 2, "memory": "4Gi" }, "configSpec": { "numCpus": 2 },
        });
        let unmet = parse_size(&class(&spec), 0).unwrap_err();
        assert_eq!(
            unmet.message,
            "VirtualMachineClass gpu: spec.configSpec: VirtualMachineConfigSpec has no numCpus. Correct the class"
        );
    }
}
