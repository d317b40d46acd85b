//! The bootstrap data of a guest, by whichever transport.

use std::collections::BTreeMap;
use std::fmt;

use api::names::label;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{ConfigSpec, CustomizationSpec, VAppConfigSpec, VAppProperty};

use crate::vcenter::GuestNetwork;
use crate::virtualmachine::identity::uuids::Identity;
use crate::virtualmachine::nic::adapter::Nic;
use crate::virtualmachine::step::Step;

/// The keys that cloud-init reads. All are always written: a template's own must not shine through.
pub const GUESTINFO: [&str; 6] = [
    "guestinfo.metadata",
    "guestinfo.metadata.encoding",
    "guestinfo.userdata",
    "guestinfo.userdata.encoding",
    "guestinfo.vendordata",
    "guestinfo.vendordata.encoding",
];
/// ExtraConfig: a hash of what the user gave when the bootstrap data was last set, so that only his changes set it again.
pub const HASH: &str = "vmservice.bootstrapHash";

/// The bootstrap data of a guest. Never printed: it holds the cluster's keys.
#[derive(Clone, Default, PartialEq)]
pub struct Bootstrap {
    /// ExtraConfig keys and values.
    pub extra_config: BTreeMap<String, String>,
    /// What becomes of the OVF properties.
    pub v_app: VApp,
    /// What vCenter has set up in the guest at its first start.
    pub customization: Option<CustomizationSpec>,
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bootstrap")
            .field("extra_config", &self.extra_config.keys())
            .field("v_app", &self.v_app)
            .field("customization", &self.customization)
            .finish()
    }
}

/// What becomes of the OVF properties of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VApp {
    /// They stay.
    #[default]
    Left,
    /// They go: cloud-init would prefer them to guestinfo.
    Removed,
    /// These get values.
    Changed(VAppConfigSpec),
}

/// What bootstrap data is composed of beside what the user gives.
#[derive(Clone, Copy, Debug)]
pub struct BootstrapInput<'a> {
    /// The UUIDs of the VM.
    pub identity: Identity,
    /// Its NICs as they shall be; none leaves those that it has.
    pub nics: &'a [Nic],
    /// How many NICs it has where none are wanted.
    pub present: usize,
    /// Its OVF properties.
    pub properties: &'a [VAppProperty],
    /// Its image lets cloud-init wait for VMware Tools.
    pub defers: bool,
    /// Name servers and what else all guests get.
    pub network: &'a GuestNetwork,
}

impl BootstrapInput<'_> {
    /// How many NICs the VM will have.
    pub fn nic_count(&self) -> usize {
        if self.nics.is_empty() { self.present } else { self.nics.len() }
    }
}

impl Bootstrap {
    /// ExtraConfig in whole: keys that cloud-init reads and that are not set are blank, whatever the template has.
    pub fn entries(&self) -> impl Iterator<Item = (String, String)> {
        let blank = GUESTINFO.iter().filter(|key| !self.extra_config.contains_key(**key));
        let set = self.extra_config.iter().map(|(key, value)| (key.clone(), value.clone()));
        set.chain(blank.map(|key| ((*key).to_owned(), String::new())))
    }

    /// The change of OVF properties, and whether they go.
    pub fn v_app_config(&self) -> (Option<VAppConfigSpec>, Option<bool>) {
        match &self.v_app {
            VApp::Left => (None, None),
            VApp::Removed => (None, Some(true)),
            VApp::Changed(spec) => (Some(spec.clone()), None),
        }
    }

    /// The steps that set the bootstrap data of a VM that is off. The last one notes the hash.
    pub fn steps(&self) -> Vec<Step> {
        let customise = self.customization.clone().map(|spec| Step::Customize(Box::new(spec)));
        let (v_app_config, v_app_config_removed) = self.v_app_config();
        let extra_config = self.entries().collect();
        let spec = ConfigSpec { extra_config, v_app_config, v_app_config_removed, ..ConfigSpec::default() };
        customise.into_iter().chain([Step::Reconfigure(Box::new(spec))]).collect()
    }
}

/// Search domains are for the nodes of clusters only: others may not live in the cluster's domain.
pub fn search_domains<'a>(vm: &VirtualMachine, input: &BootstrapInput<'a>) -> &'a [String] {
    let roles = [label::CAPW_CLUSTER_ROLE, label::CAPV_CLUSTER_ROLE];
    let node = roles.iter().any(|role| vm.labels().contains_key(*role));
    if node { &input.network.search } else { &[] }
}
