//! Compares an existing VM's settings with its spec, and decides when they can be changed.

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::json;
use vsphere::inventory::PowerState;
use vsphere::{Allocation, BaseConfig, ConfigSpec, Vm};

use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::step::{Step, allocated, fill_defaults, hardware_version};

/// The relation between a VM's size and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sized {
    /// The VM has its class's size.
    Synced,
    /// The spec names a different class than the class by which the VM was sized.
    Renamed,
    /// The class was changed, and the VM follows its class.
    Follows,
    /// The class was changed, and the VM keeps its size.
    Updated,
}

/// Compares the VM's size with its class's `size`.
pub fn compare_size(vm: &VirtualMachine, vsphere_vm: &Vm, size: &Size) -> Sized {
    let renamed = renamed(vm);
    let sized = compute_size_change(vsphere_vm, size) == ConfigSpec::default();
    if sized && !(renamed && settings(size).is_some()) {
        Sized::Synced
    } else if renamed {
        Sized::Renamed
    } else if vm.annotations().contains_key(annotation::SAME_CLASS_RESIZE) {
        Sized::Follows
    } else {
        Sized::Updated
    }
}

/// The content of the annotation [`annotation::LAST_RESIZED_CLASS`]. Other fields are ignored.
#[derive(Deserialize)]
struct ClassNote {
    name: Option<String>,
}

/// Returns the class by which the VM was last sized, or `None` if that isn't recorded.
fn sized_by(vm: &VirtualMachine) -> Option<String> {
    let noted = vm.annotations().get(annotation::LAST_RESIZED_CLASS)?;
    serde_json::from_str::<ClassNote>(noted).ok()?.name
}

/// Returns true if the spec names a different class than the one by which the VM was sized.
fn renamed(vm: &VirtualMachine) -> bool {
    sized_by(vm).is_some_and(|class| class != vm.spec.class_name)
}

/// Returns the class's settings besides CPU and memory. The inventory doesn't show these settings, so they are set when a VM
/// adopts the class, and the class is then recorded. Passthrough devices are left out, because only new VMs get them.
fn settings(size: &Size) -> Option<BaseConfig> {
    size.config.as_ref().and_then(BaseConfig::without_devices)
}

/// Returns the value of the annotation [`annotation::LAST_RESIZED_CLASS`] for a VM that has the size of the spec's class.
pub fn class_note(vm: &VirtualMachine) -> String {
    json!({ "name": vm.spec.class_name }).to_string()
}

/// Returns true if the spec names a different class than the recorded one, and the VM already has that class's size and settings.
/// `set` is true if the settings besides CPU and memory are applied.
pub fn needs_note(vm: &VirtualMachine, vsphere_vm: &Vm, size: Option<&Size>, set: bool) -> bool {
    let so = |size: &Size| {
        let sized = compute_size_change(vsphere_vm, size) == ConfigSpec::default();
        sized && (set || settings(size).is_none())
    };
    renamed(vm) && size.is_some_and(so)
}

/// Returns the steps for a VM that is off: a new size, newer hardware, and the changes that are also possible while a VM runs.
pub fn plan_offline_steps(vm: &VirtualMachine, vsphere_vm: &Vm, size: Option<&Size>) -> Vec<Step> {
    let mut spec = plan_online_changes(vm, vsphere_vm);
    if let Some(size) = size
        && matches!(compare_size(vm, vsphere_vm, size), Sized::Renamed | Sized::Follows)
    {
        let resized = compute_size_change(vsphere_vm, size);
        let change_tracking_enabled = spec.change_tracking_enabled;
        spec = ConfigSpec { change_tracking_enabled, base: settings(size), ..resized };
    }
    let mut steps = Vec::new();
    if spec != ConfigSpec::default() {
        steps.push(Step::Reconfigure(Box::new(spec)));
    }
    let least = vm.spec.min_hardware_version.and_then(|version| u32::try_from(version).ok());
    steps.extend(least.map(Step::Upgrade));
    steps
}

/// Returns the changes that are also possible while the VM runs.
pub fn plan_online_changes(vm: &VirtualMachine, vsphere_vm: &Vm) -> ConfigSpec {
    let wanted = vm.spec.advanced_options.as_ref().and_then(|options| options.change_block_tracking);
    ConfigSpec {
        change_tracking_enabled: wanted
            .filter(|wanted| vsphere_vm.change_tracking.unwrap_or(false) != *wanted),
        ..ConfigSpec::default()
    }
}

/// Returns true if the VM isn't off and has older virtual hardware than the spec requests.
pub fn has_outdated_hardware(vm: &VirtualMachine, vsphere_vm: &Vm) -> bool {
    let least = vm.spec.min_hardware_version.and_then(|version| u32::try_from(version).ok());
    vsphere_vm.power_state != Some(PowerState::Off)
        && least.zip(hardware_version(vsphere_vm)).is_some_and(|(least, is)| is < least)
}

/// Returns the settings that change the VM's size to `size`.
fn compute_size_change(vsphere_vm: &Vm, size: &Size) -> ConfigSpec {
    let other = |is: Allocation, wanted: Allocation| (!allocated(is, wanted)).then(|| fill_defaults(wanted));
    let num_cpus = (vsphere_vm.num_cpus != size.cpus).then_some(size.cpus);
    ConfigSpec {
        num_cpus,
        num_cores_per_socket: num_cpus.and_then(|_| size.cores_per_socket()),
        memory_mib: (i64::try_from(vsphere_vm.memory_mib) != Ok(size.memory_mib)).then_some(size.memory_mib),
        cpu_allocation: other(vsphere_vm.cpu_allocation, size.cpu),
        memory_allocation: other(vsphere_vm.memory_allocation, size.memory),
        ..ConfigSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn a_vm_takes_another_classs_size_and_its_own_only_where_asked() {
        let size = fixtures::needs().class.unwrap();
        let bigger = Size { cpus: 4, ..size.clone() };
        let note = |class: &str| (annotation::LAST_RESIZED_CLASS, json!({ "name": class }).to_string());
        let follow = (annotation::SAME_CLASS_RESIZE, String::new());
        for (annotations, wanted, relation) in [
            (vec![], &size, Sized::Synced),
            (vec![], &bigger, Sized::Updated),
            (vec![note("guaranteed-small")], &bigger, Sized::Updated),
            (vec![note("guaranteed-small"), follow], &bigger, Sized::Follows),
            (vec![note("best-effort-small")], &bigger, Sized::Renamed),
            (vec![note("best-effort-small")], &size, Sized::Synced),
        ] {
            let mut vm = fixtures::virtual_machine();
            let mut vsphere_vm = fixtures::vsphere_vm();
            (vsphere_vm.cpu_allocation, vsphere_vm.memory_allocation) = (size.cpu, size.memory);
            vm.metadata.annotations =
                Some(annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
            assert_eq!(compare_size(&vm, &vsphere_vm, wanted), relation);
            let resizes = matches!(relation, Sized::Renamed | Sized::Follows);
            assert_eq!(!plan_offline_steps(&vm, &vsphere_vm, Some(wanted)).is_empty(), resizes);
        }
    }

    #[test]
    fn the_settings_of_another_class_are_set_once_and_then_noted() {
        let given = json!({
            "numCoresPerSocket": 2, "deviceChange": [], "extraConfig": [
                { "_typeName": "OptionValue", "key": "a", "value": { "_typeName": "string", "_value": "b" } }],
        });
        let config = BaseConfig::read(&given).unwrap();
        let size = Size { config: Some(config), ..fixtures::needs().class.unwrap() };
        let of_class = |class: &str| {
            fixtures::annotated(annotation::LAST_RESIZED_CLASS, &json!({ "name": class }).to_string())
        };
        let vm = of_class("best-effort-small");
        let mut vsphere_vm = fixtures::vsphere_vm();
        (vsphere_vm.cpu_allocation, vsphere_vm.memory_allocation) = (size.cpu, size.memory);
        let steps = plan_offline_steps(&vm, &vsphere_vm, Some(&size));
        let [Step::Reconfigure(spec)] = steps.as_slice() else { panic!("{steps:?}") };
        assert!(spec.base.is_some() && !steps[0].is_done(&vsphere_vm), "nothing shows whether they are set");
        assert!(!needs_note(&vm, &vsphere_vm, Some(&size), false));
        assert!(needs_note(&vm, &vsphere_vm, Some(&size), true));
        let vm = of_class("guaranteed-small");
        assert_eq!(compare_size(&vm, &vsphere_vm, &size), Sized::Synced);
        assert!(plan_offline_steps(&vm, &vsphere_vm, Some(&size)).is_empty());
    }

    #[test]
    fn hardware_is_raised_and_blocks_are_tracked_where_asked() {
        let mut vm = fixtures::virtual_machine();
        let mut vsphere_vm = fixtures::vsphere_vm();
        vm.spec.min_hardware_version = Some(21);
        vm.spec.advanced_options = Some(api::vmop::VirtualMachineAdvancedOptions {
            change_block_tracking: Some(true),
            ..api::vmop::VirtualMachineAdvancedOptions::default()
        });
        let steps = plan_offline_steps(&vm, &vsphere_vm, None);
        assert_eq!(steps.iter().map(Step::word).collect::<Vec<_>>(), ["reconfigure", "upgrade"]);
        assert!(has_outdated_hardware(&vm, &vsphere_vm));
        (vsphere_vm.change_tracking, vsphere_vm.hardware_version) = (Some(true), "vmx-21".into());
        assert!(plan_offline_steps(&vm, &vsphere_vm, None).iter().all(|step| step.is_done(&vsphere_vm)));
    }
}
