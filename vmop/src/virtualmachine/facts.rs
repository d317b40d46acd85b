//! Everything that one reconcile has read of a VM.

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
use super::placement::module::Membership;
use super::size::class::Size;
use super::storage::claims::Volumes;
use super::storage::disks;
use super::storage::observe::DiskFacts;
use super::storage::promotion::Promotion;
use crate::device_check::DeviceKinds;
use crate::probe::{ProbeResult, Target};
use crate::unmet::Need;
use crate::vcenter::Placement;
use crate::vcenter::mark::Mark;

/// Everything that one reconcile has read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The UUIDs of the VM.
    pub identity: Identity,
    /// The mark of VMs of this object.
    pub mark: Mark,
    /// What vCenter has of it.
    pub found: Found,
    /// What a VM that is to be created needs; only there if nothing was found.
    pub creation: Option<Box<Creation>>,
    /// What changes while the VM runs.
    pub runtime: RuntimeFacts,
    /// Its persistent volumes, where it has or had some.
    pub volumes: Option<Volumes>,
    /// What there is to do about its cluster module.
    pub membership: Need<Membership>,
    /// Its disks, where the spec says something about them.
    pub disks: Option<DiskFacts>,
    /// What becomes of its linked disks, where somebody asks for something.
    pub promotion: Option<Promotion>,
    /// The change of its NICs before it runs, where its spec names others.
    pub nic_change: Need<Option<NicChange>>,
    /// The bootstrap data that its guest gets before it runs, where that is to be other.
    pub bootstrap_update: Need<Option<Bootstrap>>,
    /// What has to be requested of the network provider for a VM that exists.
    pub nic_requests: Vec<NicRequest>,
    /// What becomes of the watch of the guest's data.
    pub data_source_watch: DataSourceWatch,
    /// When it was read.
    pub now: Timestamp,
}

/// What of a VM that exists changes while it runs; read again after a step has changed the VM.
#[derive(Clone, Debug, Default)]
pub struct RuntimeFacts {
    /// What the readiness probe says; `None` without a probe.
    pub probe: Option<ProbeResult>,
    /// What the readiness probe is to dial.
    pub probe_target: Option<Target>,
    /// The addresses that others may be sent to.
    pub endpoint_addresses: Vec<IpAddr>,
    /// What its user is shown, where its guest reports only addresses that are another VM's.
    pub address_conflict: Option<String>,
    /// Name of the host that it runs on.
    pub host: Option<String>,
    /// The zone that it lies in.
    pub zone: Option<String>,
    /// Where it should lie, where that is known.
    pub placement: Option<Placement>,
    /// The size that its class stands for, where that is known.
    pub size: Option<Size>,
    /// How long after its power-on a guest may take to report on its bootstrap, where it is to.
    pub report_timeout: Option<SignedDuration>,
}

impl Facts {
    /// What is known before anything else is read.
    pub fn new(identity: Identity, mark: Mark, found: Found, now: Timestamp) -> Self {
        Self {
            identity,
            mark,
            found,
            creation: None,
            runtime: RuntimeFacts::default(),
            volumes: None,
            membership: Ok(Membership::default()),
            disks: None,
            promotion: None,
            nic_change: Ok(None),
            bootstrap_update: Ok(None),
            nic_requests: Vec::new(),
            data_source_watch: DataSourceWatch::Keep,
            now,
        }
    }

    /// Frees the bootstrap data of a VM that is to be created: the plan has it, and frees it when vCenter has it.
    pub fn forget_bootstrap(&mut self) {
        if let Some(creation) = &mut self.creation
            && let Ok(bootstrap) = &mut creation.needs.bootstrap
        {
            *bootstrap = Bootstrap::default();
        }
    }

    /// The kinds of devices of which the VM has all that its spec asks for.
    pub fn complete_devices(&self, vm: &VirtualMachine, vsphere_vm: &Vm) -> DeviceKinds {
        let has_disks = |known: &DiskFacts| {
            let storage = known.storage.as_ref().ok().cloned().unwrap_or_default();
            let change = disks::changes(vm, vsphere_vm, &known.devices, &storage);
            change.is_ok_and(|change| change.is_none_or(|spec| spec.device_change.is_empty()))
        };
        DeviceKinds { nics: self.has_changed_nics(), disks: self.disks.as_ref().is_some_and(has_disks) }
    }

    /// Whether the VM's NICs are being changed: its guest gets its bootstrap data in a later reconcile.
    pub fn changes_nics(&self) -> bool {
        self.nic_change().is_some_and(|change| change.step().is_some())
    }

    /// Whether the VM's NICs were changed as its spec says, and its guest's data is all that lacks.
    pub fn has_changed_nics(&self) -> bool {
        self.nic_change().is_some_and(|change| change.step().is_none())
    }

    fn nic_change(&self) -> Option<&NicChange> {
        self.nic_change.as_ref().ok().and_then(Option::as_ref)
    }
}
