//! Tracks the boot progress of all guests.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::addresses::GuestAddress;
use crate::guest::failure::Failure;
use crate::vcsim::control::SimulatedVm;

/// A guest's boot phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The VM is powered on, but a test keeps the guest from reading its guestinfo and booting.
    Held,
    /// The VM is powered on and booting. The guest isn't a node yet.
    Booting,
    /// The guest is a node.
    Node,
    /// A real machine runs, and its VMware Tools report to vCenter.
    Running,
    /// The VM runs, but doesn't have boot data for a node.
    Plain(Failure),
    /// The VM runs, but didn't become a node.
    Failed(Failure),
    /// The VM is powered off.
    Off,
}

/// One VM's boot progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootReport {
    /// The VM's managed object ID.
    pub moid: String,
    /// The VM name.
    pub name: String,
    /// The guest's IP address.
    pub address: GuestAddress,
    /// The current phase.
    pub phase: Phase,
}

/// Boot reports by managed object ID.
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

    /// Waits until `is_there` returns true for the named VM's phase, and returns the VM's report. The VM doesn't have
    /// to exist yet.
    pub async fn reached(&self, name: &str, is_there: impl Fn(&Phase) -> bool) -> BootReport {
        let mut reports = self.0.subscribe();
        loop {
            let report = find(&reports.borrow_and_update(), name);
            if let Some(report) = report.filter(|report| is_there(&report.phase)) {
                return report;
            }
            // The sender lives as long as `self`, so this can't fail.
            let _ = reports.changed().await;
        }
    }

    /// Adds or replaces the report when a VM was powered on.
    pub fn add(&self, vm: &SimulatedVm, address: GuestAddress) {
        let (moid, name) = (vm.moid.clone(), vm.name.clone());
        let report = BootReport { moid, name, address, phase: Phase::Booting };
        self.0.send_modify(|reports| drop(reports.insert(vm.moid.clone(), report)));
    }

    pub fn set_phase(&self, moid: &str, phase: Phase) {
        self.change(moid, |report| report.phase = phase);
    }

    pub fn readdress(&self, moid: &str, address: GuestAddress) {
        self.change(moid, |report| report.address = address);
    }

    pub fn rename(&self, vm: &SimulatedVm) {
        self.change(&vm.moid, |report| report.name.clone_from(&vm.name));
    }

    /// Changes a VM's report, if one exists, and notifies waiters if the report is different afterwards.
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
