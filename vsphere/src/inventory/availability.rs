//! VM availability, and the last known configuration of VMs that vCenter can't read.

use super::vm::{Configuration, PATHS, Vm};
use crate::Value;

/// A property that is set whenever the VM's configuration is set.
const SET_WITH_CONFIG: &str = "config.template";
/// The connection state of a VM that vCenter can reach.
const CONNECTED: &str = "connected";

impl Vm {
    /// Returns true if vCenter can reach the VM and read its configuration. Otherwise the VM's power state, owner and even
    /// its existence are uncertain.
    pub fn is_available(&self) -> bool {
        self.connection_state == CONNECTED && self.configuration == Configuration::Current
    }

    /// Applies property changes. Null unsets a property, including all properties below it.
    ///
    /// If vCenter unsets the configuration as a whole, the VM keeps the last known values. `keep` lists the prefixes of the
    /// ExtraConfig keys to keep.
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

    /// Takes over the configuration from `was` if vCenter doesn't report a configuration now and `was` has one.
    pub(super) fn keep_last_known(self, was: &Self) -> Self {
        if self.configuration == Configuration::Current || was.configuration == Configuration::NeverRead {
            return self;
        }
        Self {
            // Don't write `..self`: each new field of a VM needs a decision here.
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

/// Returns true if vCenter reads the property from the VM's files.
fn is_read_from_files(path: &str) -> bool {
    path.starts_with("config.") || path.starts_with("summary.config.")
}
