//! The progress of the guests of all VMs.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::addresses::Address;
use crate::guest::failure::Failure;
use crate::vcsim::control::Vm;

/// The progress of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Powered on and held by a story, before it reads its guestinfo.
    Held,
    /// Powered on, and not a node yet.
    Booting,
    /// A node.
    Node,
    /// A real machine whose VMware Tools report.
    Running,
    /// A VM that runs, and has no boot data of a node.
    Plain(Failure),
    /// A VM that runs and did not become a node.
    Failed(Failure),
    /// Powered off.
    Off,
}

/// A VM with the progress of its guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootReport {
    /// The VM's id.
    pub moid: String,
    /// The VM's name.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its progress.
    pub phase: Phase,
}

/// The reports, by the ids of the VMs.
#[derive(Default)]
pub struct Reports(watch::Sender<BTreeMap<String, BootReport>>);

impl Reports {
    pub fn all(&self) -> Vec<BootReport> {
        self.0.borrow().values().cloned().collect()
    }

    pub fn moids(&self) -> Vec<String> {
        self.0.borrow().keys().cloned().collect()
    }

    pub fn of_name(&self, name: &str) -> Option<BootReport> {
        find(&self.0.borrow(), name)
    }

    /// Waits until `is_there` returns true for the phase of the VM of that name, which may not exist yet.
    pub async fn reached(&self, name: &str, is_there: impl Fn(&Phase) -> bool) -> BootReport {
        let mut reports = self.0.subscribe();
        loop {
            let report = find(&reports.borrow_and_update(), name);
            if let Some(report) = report.filter(|report| is_there(&report.phase)) {
                return report;
            }
            // The sender lives as long as this agent.
            let _ = reports.changed().await;
        }
    }

    /// Adds the report of a VM that was powered on.
    pub fn add(&self, vm: &Vm, address: Address) {
        let (moid, name) = (vm.moid.clone(), vm.name.clone());
        let report = BootReport { moid, name, address, phase: Phase::Booting };
        self.0.send_modify(|reports| drop(reports.insert(vm.moid.clone(), report)));
    }

    pub fn set_phase(&self, moid: &str, phase: Phase) {
        self.change(moid, |report| report.phase = phase);
    }

    pub fn readdress(&self, moid: &str, address: Address) {
        self.change(moid, |report| report.address = address);
    }

    pub fn rename(&self, vm: &Vm) {
        self.change(&vm.moid, |report| report.name.clone_from(&vm.name));
    }

    /// Changes the report of a VM, if there is one, and wakes those who wait if it is different then.
    fn change(&self, moid: &str, change: impl FnOnce(&mut BootReport)) {
        self.0.send_if_modified(|reports| {
            let Some(report) = reports.get_mut(moid) else { return false };
            let before = report.clone();
            change(report);
            *report != before
        });
    }

    pub fn remove(&self, moid: &str) {
        self.0.send_if_modified(|reports| reports.remove(moid).is_some());
    }
}

fn find(reports: &BTreeMap<String, BootReport>, name: &str) -> Option<BootReport> {
    reports.values().find(|report| report.name == name).cloned()
}
