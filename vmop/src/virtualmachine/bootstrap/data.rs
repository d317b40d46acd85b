//! A guest's bootstrap data, for all transports.

use std::collections::BTreeMap;
use std::fmt;

use api::names::label;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{ConfigSpec, CustomizationSpec, VAppChange, VAppProperty};

use crate::vcenter::GuestNetwork;
use crate::virtualmachine::identity::uuids::Identity;
use crate::virtualmachine::nic::adapter::Nic;
use crate::virtualmachine::step::Step;

/// The keys that cloud-init reads. All of them are always written, to override the template's values.
pub const GUESTINFO: [&str; 6] = [
    "guestinfo.metadata",
    "guestinfo.metadata.encoding",
    "guestinfo.userdata",
    "guestinfo.userdata.encoding",
    "guestinfo.vendordata",
    "guestinfo.vendordata.encoding",
];
/// The ExtraConfig key for the hash of the user's data that was last set. The data is set again only if the hash or the NICs
/// change.
pub const HASH: &str = "vmservice.bootstrapHash";

/// A guest's bootstrap data. `Debug` omits the values, because they contain cluster keys.
#[derive(Clone, Default, PartialEq)]
pub struct Bootstrap {
    /// ExtraConfig keys and values.
    pub extra_config: BTreeMap<String, String>,
    /// The change to the OVF properties.
    pub v_app: VApp,
    /// The guest customization that vCenter applies at the guest's next start.
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

/// The change to the OVF properties from the template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VApp {
    /// Keeps the properties.
    #[default]
    Left,
    /// Removes the properties, because cloud-init would prefer them to guestinfo.
    Removed,
    /// Sets property values.
    Changed(VAppChange),
}

/// The input from which bootstrap data is composed, in addition to the user's data.
#[derive(Clone, Copy, Debug)]
pub struct BootstrapInput<'a> {
    pub identity: Identity,
    /// The wanted NICs; empty if the VM keeps its NICs.
    pub nics: &'a [Nic],
    /// The number of NICs that the VM has, and keeps if `nics` is empty.
    pub present: usize,
    pub properties: &'a [VAppProperty],
    /// True if cloud-init in the image can wait for VMware Tools.
    pub defers: bool,
    /// Name servers and other settings for all guests.
    pub network: &'a GuestNetwork,
}

impl BootstrapInput<'_> {
    /// Returns the number of NICs that the VM will have.
    pub fn nic_count(&self) -> usize {
        if self.nics.is_empty() { self.present } else { self.nics.len() }
    }
}

impl Bootstrap {
    /// Returns all ExtraConfig entries. Unset cloud-init keys are blank, to override the template's values.
    pub fn entries(&self) -> impl Iterator<Item = (String, String)> {
        let blank = GUESTINFO.iter().filter(|key| !self.extra_config.contains_key(**key));
        let set = self.extra_config.iter().map(|(key, value)| (key.clone(), value.clone()));
        set.chain(blank.map(|key| ((*key).to_owned(), String::new())))
    }

    /// Returns the OVF property changes, and `Some(true)` if the properties are removed.
    pub fn v_app_config(&self) -> (Option<VAppChange>, Option<bool>) {
        match &self.v_app {
            VApp::Left => (None, None),
            VApp::Removed => (None, Some(true)),
            VApp::Changed(spec) => (Some(spec.clone()), None),
        }
    }

    /// Returns the steps that set the bootstrap data for a VM that is off. The last step also records the hash.
    pub fn steps(&self) -> Vec<Step> {
        let customise = self.customization.clone().map(|spec| Step::Customize(Box::new(spec)));
        let (v_app_config, v_app_config_removed) = self.v_app_config();
        let extra_config = self.entries().collect();
        let spec = ConfigSpec { extra_config, v_app_config, v_app_config_removed, ..ConfigSpec::default() };
        customise.into_iter().chain([Step::Reconfigure(Box::new(spec))]).collect()
    }
}

/// Returns the search domains. Only cluster nodes get them, because other VMs might not be in the cluster's domain.
pub fn search_domains<'a>(vm: &VirtualMachine, input: &BootstrapInput<'a>) -> &'a [String] {
    let roles = [label::CAPW_CLUSTER_ROLE, label::CAPV_CLUSTER_ROLE];
    let node = roles.iter().any(|role| vm.labels().contains_key(*role));
    if node { &input.network.search } else { &[] }
}
