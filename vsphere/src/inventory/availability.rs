//! Whether vCenter reaches a VM, and what is kept of one whose configuration it can't read.

use super::vm::{Configuration, PATHS, Vm};
use crate::Value;

/// Is set whenever a VM's configuration is.
const SET_WITH_CONFIG: &str = "config.template";
/// The state of a VM that vCenter reaches.
const CONNECTED: &str = "connected";

impl Vm {
    /// Whether vCenter reaches the VM and its configuration. Of one that it does not reach, nothing is certain but that
    /// it was there: neither that it is off, nor whose it is, nor that it is gone.
    pub fn is_available(&self) -> bool {
        self.connection_state == CONNECTED && self.configuration == Configuration::Current
    }

    /// Applies what vCenter says is other; null unsets a property, and a parent that is unset unsets all below it.
    ///
    /// A VM whose configuration is unset keeps what is known of it.
    pub(super) fn apply(&mut self, changes: &[(String, Value)], keep: &[String]) {
        let covers = |path: &str, known: &str| {
            known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for (path, value) in changes {
            if covers(path, SET_WITH_CONFIG) {
                self.configuration = match (value.is_null(), self.configuration) {
                    (false, _) => Configuration::Current,
                    (true, Configuration::NeverRead) => Configuration::NeverRead,
                    (true, _) => Configuration::LastKnown,
                };
            }
        }
        let unread = self.configuration != Configuration::Current;
        for (path, value) in changes {
            if !value.is_null() {
                self.set(path, value, keep);
                continue;
            }
            for known in PATHS.iter().filter(|known| covers(path, known)) {
                if !(unread && is_read_from_files(known)) {
                    self.set(known, value, keep);
                }
            }
        }
    }

    /// What was known of it before, where vCenter reports no configuration now.
    pub(super) fn keep_last_known(self, was: &Self) -> Self {
        if self.configuration == Configuration::Current || was.configuration == Configuration::NeverRead {
            return self;
        }
        Self {
            // No `..self`: what is added to a VM is decided here, too.
            moref: self.moref,
            name: self.name,
            folder: self.folder,
            pool: self.pool,
            host: self.host,
            power_state: self.power_state,
            connection_state: self.connection_state,
            question: self.question,
            guest: self.guest,
            configuration: Configuration::LastKnown,
            template: was.template,
            uuid: was.uuid,
            instance_uuid: was.instance_uuid,
            managed_by: was.managed_by.clone(),
            extra_config: was.extra_config.clone(),
            disks: was.disks,
            devices: was.devices.clone(),
            num_cpus: was.num_cpus,
            memory_mib: was.memory_mib,
            cpu_allocation: was.cpu_allocation,
            memory_allocation: was.memory_allocation,
            change_version: was.change_version.clone(),
            change_tracking: was.change_tracking,
            hardware_version: was.hardware_version.clone(),
        }
    }
}

/// Whether vCenter knows a property from the VM's files alone.
fn is_read_from_files(path: &str) -> bool {
    path.starts_with("config.") || path.starts_with("summary.config.")
}
