//! What is done to a VM that is there: one call per step, and whether a step is so already.

use api::vmop::VirtualMachine;
use jiff::Timestamp;
use vsphere::inventory::PowerState;
use vsphere::{Allocation, ConfigSpec, CustomizationSpec, Vm};

/// ExtraConfig: when a VM was last restarted on request, in nanoseconds since 1970, as vm-operator writes it.
const LAST_RESTART: &str = "vmservice.lastRestartTime";

/// One call to vCenter. Steps are carried out in their order in one pass; one that is so already is skipped.
///
/// A pass that ends between two of them does no harm: the next one plans the rest from what vCenter shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The settings become these.
    Reconfigure(Box<ConfigSpec>),
    /// The virtual hardware has at least this version.
    Upgrade(u32),
    /// The guest is customised at its next start.
    Customize(Box<CustomizationSpec>),
    /// The VM is a member of the cluster module with this UUID; membership precedes power-on.
    Join(String),
    /// The VM is in this power state.
    Power(PowerState, Mode),
    /// The VM is restarted, as was asked for at this time.
    Restart(Mode, Timestamp),
}

/// How a VM is turned off, suspended or restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By vCenter, whatever the guest does.
    #[default]
    Hard,
    /// By the guest, however long that takes.
    Soft,
    /// By the guest, and by vCenter if the guest does not do it in time.
    TrySoft,
}

impl Mode {
    /// The mode that a field of the spec names.
    pub fn of(field: Option<&str>) -> Self {
        match field {
            Some("soft") => Self::Soft,
            Some("trySoft") => Self::TrySoft,
            _ => Self::Hard,
        }
    }

    /// How the spec wants the VM to get into `state`.
    pub fn into_state(vm: &VirtualMachine, state: PowerState) -> Self {
        match state {
            PowerState::On => Self::Hard,
            PowerState::Off => Self::of(vm.spec.power_off_mode.as_deref()),
            PowerState::Suspended => Self::of(vm.spec.suspend_mode.as_deref()),
        }
    }
}

impl Step {
    /// Sets options of the VM's ExtraConfig.
    pub fn set_options(options: Vec<(String, String)>) -> Self {
        Self::Reconfigure(Box::new(ConfigSpec { extra_config: options.into(), ..ConfigSpec::default() }))
    }

    /// The cluster module that the step is about.
    pub fn module(&self) -> Option<&str> {
        match self {
            Self::Join(module) => Some(module),
            _ => None,
        }
    }

    /// The step in a word, for logs: settings may hold secrets.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Reconfigure(_) => "reconfigure",
            Self::Upgrade(_) => "upgrade",
            Self::Customize(_) => "customize",
            Self::Join(_) => "join",
            Self::Power(PowerState::On, _) => "power on",
            Self::Power(PowerState::Off, _) => "power off",
            Self::Power(PowerState::Suspended, _) => "suspend",
            Self::Restart(..) => "restart",
        }
    }

    /// Whether `machine` is so already. What vCenter's stream does not show is never taken for granted.
    pub fn is_done(&self, vsphere_vm: &Vm) -> bool {
        match self {
            Self::Reconfigure(spec) => bears(vsphere_vm, spec),
            Self::Upgrade(version) => hardware_version(vsphere_vm).is_some_and(|is| is >= *version),
            Self::Customize(_) | Self::Join(_) => false,
            Self::Power(state, _) => vsphere_vm.power_state == Some(*state),
            Self::Restart(_, asked) => last_restart(vsphere_vm).is_some_and(|last| last >= *asked),
        }
    }
}

/// The number in a hardware version such as `vmx-19`.
pub fn hardware_version(vsphere_vm: &Vm) -> Option<u32> {
    vsphere_vm.hardware_version.strip_prefix("vmx-")?.parse().ok()
}

/// When the VM was last restarted on request.
pub fn last_restart(vsphere_vm: &Vm) -> Option<Timestamp> {
    let nanoseconds = vsphere_vm.extra_config.get(LAST_RESTART)?.parse().ok()?;
    Timestamp::from_nanosecond(nanoseconds).ok()
}

/// The note that the VM was restarted at that time.
pub fn restart_note(at: Timestamp) -> (String, String) {
    (LAST_RESTART.to_owned(), at.as_nanosecond().to_string())
}

/// Whether every setting of `spec` that the stream shows is the VM's; one that it does not show counts as missing.
fn bears(vsphere_vm: &Vm, spec: &ConfigSpec) -> bool {
    let shown = ConfigSpec {
        // It is set together with the CPUs, and not shown.
        num_cores_per_socket: spec
            .num_cores_per_socket
            .filter(|_| spec.num_cpus.is_none_or(|cpus| cpus != vsphere_vm.num_cpus)),
        num_cpus: spec.num_cpus.filter(|cpus| *cpus != vsphere_vm.num_cpus),
        memory_mib: spec.memory_mib.filter(|mib| u64::try_from(*mib) != Ok(vsphere_vm.memory_mib)),
        cpu_allocation: spec.cpu_allocation.filter(|wanted| !allocated(vsphere_vm.cpu_allocation, *wanted)),
        memory_allocation: spec
            .memory_allocation
            .filter(|wanted| !allocated(vsphere_vm.memory_allocation, *wanted)),
        change_tracking_enabled: spec
            .change_tracking_enabled
            .filter(|wanted| vsphere_vm.change_tracking.unwrap_or(false) != *wanted),
        extra_config: spec
            .extra_config
            .iter()
            .filter(|(key, value)| vsphere_vm.extra_config.get(key).map_or("", String::as_str) != value)
            .cloned()
            .collect(),
        ..spec.clone()
    };
    shown == ConfigSpec::default()
}

/// Whether a VM's guarantee and limit are the wanted ones; what is not given is nothing and unlimited.
pub fn allocated(is: Allocation, wanted: Allocation) -> bool {
    explicit(is) == explicit(wanted)
}

/// Returns the allocation with its defaults filled in: no reservation and no limit.
pub fn explicit(allocation: Allocation) -> Allocation {
    Allocation {
        reservation: Some(allocation.reservation.unwrap_or(0)),
        limit: Some(allocation.limit.unwrap_or(-1)),
        expandable: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn settings_that_are_so_need_no_call() {
        let vsphere_vm = fixtures::vsphere_vm();
        let size = ConfigSpec { num_cpus: Some(2), memory_mib: Some(4096), ..ConfigSpec::default() };
        assert!(Step::Reconfigure(Box::new(size.clone())).is_done(&vsphere_vm));
        for other in [
            ConfigSpec { num_cpus: Some(4), ..size.clone() },
            ConfigSpec { extra_config: vec![("vmservice.x".into(), "1".into())].into(), ..size.clone() },
            ConfigSpec { firmware: Some("efi".into()), ..size },
        ] {
            assert!(!Step::Reconfigure(Box::new(other)).is_done(&vsphere_vm));
        }
    }

    #[test]
    fn versions_and_restarts_are_read_from_notes() {
        let mut vsphere_vm = fixtures::vsphere_vm();
        assert!(Step::Upgrade(19).is_done(&vsphere_vm) && !Step::Upgrade(20).is_done(&vsphere_vm));
        let asked: Timestamp = "2026-11-21T13:00:00.5Z".parse().unwrap();
        let step = Step::Restart(Mode::Hard, asked);
        assert!(!step.is_done(&vsphere_vm));
        vsphere_vm.extra_config.extend([restart_note(asked)]);
        assert_eq!(last_restart(&vsphere_vm), Some(asked));
        assert!(step.is_done(&vsphere_vm));
    }
}
