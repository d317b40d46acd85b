//! Steps that change an existing VM, one vCenter call each, and the checks that show if a step is already done.

use api::vmop::VirtualMachine;
use jiff::Timestamp;
use vsphere::inventory::PowerState;
use vsphere::{Allocation, ConfigSpec, CustomizationSpec, Vm};

/// The ExtraConfig key for the time of the last requested restart, in nanoseconds since 1970, as vm-operator writes it.
const LAST_RESTART: &str = "vmservice.lastRestartTime";

/// One call to vCenter. A reconcile carries out its steps in order and skips the ones that are already done.
///
/// A reconcile may end between two steps. The next reconcile plans the remaining steps from the state in vCenter.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Applies these settings.
    Reconfigure(Box<ConfigSpec>),
    /// Upgrades the virtual hardware to at least this version.
    Upgrade(u32),
    /// Customizes the guest at its next start.
    Customize(Box<CustomizationSpec>),
    /// Adds the VM to the cluster module with this UUID. If the VM is off, this precedes power-on.
    Join(String),
    /// Changes the power state.
    Power(PowerState, PowerMode),
    /// Restarts the VM. The timestamp is the time for which the restart was requested.
    Restart(PowerMode, Timestamp),
}

/// The method to power off, suspend or restart a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerMode {
    /// vCenter changes the state without asking the guest.
    #[default]
    Hard,
    /// The guest changes the state, without a timeout.
    Soft,
    /// The guest changes the state; after a timeout, vCenter does.
    TrySoft,
}

impl PowerMode {
    /// Parses a mode field of the spec. The default is `Hard`.
    pub fn of(field: Option<&str>) -> Self {
        match field {
            Some("soft") => Self::Soft,
            Some("trySoft") => Self::TrySoft,
            _ => Self::Hard,
        }
    }

    /// Returns the mode that the spec requests for a change to `state`.
    pub fn into_state(vm: &VirtualMachine, state: PowerState) -> Self {
        match state {
            PowerState::On => Self::Hard,
            PowerState::Off => Self::of(vm.spec.power_off_mode.as_deref()),
            PowerState::Suspended => Self::of(vm.spec.suspend_mode.as_deref()),
        }
    }
}

impl Step {
    /// Returns a step that sets ExtraConfig options.
    pub fn set_options(options: Vec<(String, String)>) -> Self {
        Self::Reconfigure(Box::new(ConfigSpec { extra_config: options.into(), ..ConfigSpec::default() }))
    }

    /// Returns the cluster module that the step joins, if it joins one.
    pub fn module(&self) -> Option<&str> {
        match self {
            Self::Join(module) => Some(module),
            _ => None,
        }
    }

    /// Returns a word for logs. The settings aren't logged, because they may contain secrets.
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

    /// Returns true if the step is already done. A result that the inventory stream doesn't show counts as not done.
    pub fn is_done(&self, vsphere_vm: &Vm) -> bool {
        match self {
            Self::Reconfigure(spec) => has_settings(vsphere_vm, spec),
            Self::Upgrade(version) => hardware_version(vsphere_vm).is_some_and(|is| is >= *version),
            Self::Customize(_) | Self::Join(_) => false,
            Self::Power(state, _) => vsphere_vm.power_state == Some(*state),
            Self::Restart(_, asked) => last_restart(vsphere_vm).is_some_and(|last| last >= *asked),
        }
    }
}

/// Parses the VM's virtual hardware version, such as 19 from `vmx-19`.
pub fn hardware_version(vsphere_vm: &Vm) -> Option<u32> {
    vsphere_vm.hardware_version.strip_prefix("vmx-")?.parse().ok()
}

/// Returns the requested time of the last restart, if the VM was ever restarted on request.
pub fn last_restart(vsphere_vm: &Vm) -> Option<Timestamp> {
    let nanoseconds = vsphere_vm.extra_config.get(LAST_RESTART)?.parse().ok()?;
    Timestamp::from_nanosecond(nanoseconds).ok()
}

/// Returns the ExtraConfig key and value that record the restart requested for `at`.
pub fn restart_note(at: Timestamp) -> (String, String) {
    (LAST_RESTART.to_owned(), at.as_nanosecond().to_string())
}

/// Returns true if the VM has every setting in `spec`. A setting that the inventory stream doesn't show counts as missing.
fn has_settings(vsphere_vm: &Vm, spec: &ConfigSpec) -> bool {
    let shown = ConfigSpec {
        // The number of cores is set together with the CPUs, and the stream doesn't show it.
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

/// Returns true if both allocations have the same reservation and limit, which default to zero and unlimited.
pub fn allocated(is: Allocation, wanted: Allocation) -> bool {
    fill_defaults(is) == fill_defaults(wanted)
}

/// Returns the allocation with its defaults filled in: no reservation and no limit.
pub fn fill_defaults(allocation: Allocation) -> Allocation {
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
        let step = Step::Restart(PowerMode::Hard, asked);
        assert!(!step.is_done(&vsphere_vm));
        vsphere_vm.extra_config.extend([restart_note(asked)]);
        assert_eq!(last_restart(&vsphere_vm), Some(asked));
        assert!(step.is_done(&vsphere_vm));
    }
}
