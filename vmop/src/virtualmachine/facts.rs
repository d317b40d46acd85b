//! The facts that one reconcile has read about a VM.

use std::net::IpAddr;

use api::vmop::VirtualMachine;
use jiff::{SignedDuration, Timestamp};
use vsphere::Vm;

use super::bootstrap::data::Bootstrap;
use super::bootstrap::observe::DataSourceWatch;
use super::identity::find::Found;
use super::identity::uuids::Identity;
use super::needs::Creation;
use super::nic::change::NicChange;
use super::nic::request::NicRequest;
use super::placement::module::ModuleMembership;
use super::size::class::Size;
use super::storage::claims::Volumes;
use super::storage::disks;
use super::storage::observe::DiskFacts;
use super::storage::promotion::Promotion;
use crate::device_check::DeviceKinds;
use crate::probe::{ProbeResult, ProbeTarget};
use crate::unmet::Need;
use crate::vcenter::Placement;
use crate::vcenter::mark::Mark;

/// The facts that one reconcile has read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The instance and BIOS UUIDs.
    pub identity: Identity,
    /// The mark that the VM of this VirtualMachine has in vCenter.
    pub mark: Mark,
    /// The VM in vCenter, or the reason why it wasn't found.
    pub found: Found,
    /// The facts for the creation; `Some` only if the VM doesn't exist.
    pub creation: Option<Box<Creation>>,
    /// Facts that change while the VM runs.
    pub runtime: RuntimeFacts,
    /// The persistent volumes, if the VM has or had any.
    pub volumes: Option<Volumes>,
    /// The cluster module that the VM must join, or the module that vanished.
    pub membership: Need<ModuleMembership>,
    /// The disks, if the spec contains vSphere volumes.
    pub disks: Option<DiskFacts>,
    /// The promotion of linked disks, unless promotion is disabled.
    pub promotion: Option<Promotion>,
    /// The NIC change to make before power-on, if the spec names different interfaces than the VM has.
    pub nic_change: Need<Option<NicChange>>,
    /// The bootstrap data to set before power-on, if it changes.
    pub bootstrap_update: Need<Option<Bootstrap>>,
    /// Requests to the network provider for an existing VM.
    pub nic_requests: Vec<NicRequest>,
    /// Keeps, starts or stops the watch on the guest's Secret or ConfigMap.
    pub data_source_watch: DataSourceWatch,
    /// The time at which the facts were read.
    pub now: Timestamp,
}

/// Facts that change while an existing VM runs. They are read again after a step has changed the VM.
#[derive(Clone, Debug, Default)]
pub struct RuntimeFacts {
    /// The readiness probe's result; `None` without a probe.
    pub probe: Option<ProbeResult>,
    /// The target that the readiness probe dials.
    pub probe_target: Option<ProbeTarget>,
    /// The addresses that traffic may be sent to.
    pub endpoint_addresses: Vec<IpAddr>,
    /// The message to the user if the guest reports only addresses that belong to other VMs.
    pub address_conflict: Option<String>,
    /// The name of the VM's host.
    pub host: Option<String>,
    /// The zone in which the VM is located.
    pub zone: Option<String>,
    /// The expected placement, if known.
    pub placement: Option<Placement>,
    /// The size that the class defines, if known.
    pub size: Option<Size>,
    /// The maximum time between power-on and the guest's bootstrap report; `None` waits forever.
    pub report_timeout: Option<SignedDuration>,
}

impl Facts {
    /// Creates facts with defaults for everything that is read later.
    pub fn new(identity: Identity, mark: Mark, found: Found, now: Timestamp) -> Self {
        Self {
            identity,
            mark,
            found,
            creation: None,
            runtime: RuntimeFacts::default(),
            volumes: None,
            membership: Ok(ModuleMembership::default()),
            disks: None,
            promotion: None,
            nic_change: Ok(None),
            bootstrap_update: Ok(None),
            nic_requests: Vec::new(),
            data_source_watch: DataSourceWatch::Keep,
            now,
        }
    }

    /// Frees the bootstrap data of a VM to be created. The plan contains the data too, and frees it when vCenter has accepted
    /// or rejected the clone.
    pub fn forget_bootstrap(&mut self) {
        if let Some(creation) = &mut self.creation
            && let Ok(bootstrap) = &mut creation.needs.bootstrap
        {
            *bootstrap = Bootstrap::default();
        }
    }

    /// Returns the device kinds for which the VM has all devices that its spec requests.
    pub fn complete_devices(&self, vm: &VirtualMachine, vsphere_vm: &Vm) -> DeviceKinds {
        let has_disks = |known: &DiskFacts| {
            let storage = known.storage.as_ref().ok().cloned().unwrap_or_default();
            let change = disks::plan_disk_changes(vm, vsphere_vm, &known.devices, &storage);
            change.is_ok_and(|change| change.is_none_or(|spec| spec.device_change.is_empty()))
        };
        DeviceKinds { nics: self.has_changed_nics(), disks: self.disks.as_ref().is_some_and(has_disks) }
    }

    /// Returns true if the VM's NICs are being changed. The guest gets its bootstrap data in a later reconcile.
    pub fn changes_nics(&self) -> bool {
        self.nic_change().is_some_and(|change| change.step().is_some())
    }

    /// Returns true if the NIC change is done and only the guest's bootstrap data is missing.
    pub fn has_changed_nics(&self) -> bool {
        self.nic_change().is_some_and(|change| change.step().is_none())
    }

    fn nic_change(&self) -> Option<&NicChange> {
        self.nic_change.as_ref().ok().and_then(Option::as_ref)
    }
}
