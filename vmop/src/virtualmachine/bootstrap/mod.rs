//! What the guest of a machine is told, by whichever way, all of it in the one call that makes the machine.
//!
//! Nothing here waits for what vCenter chooses: a card whose MAC nobody knows yet is told by its driver
//! or its name.

mod cloud_init;
mod customization;
mod netplan;
pub mod observe;
mod properties;
#[cfg(test)]
mod tests;
pub mod user_data;
pub mod values;
#[cfg(test)]
mod vcsim_tests;

use std::collections::BTreeMap;
use std::fmt;

use api::names::label;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{ConfigSpec, CustomizationSpec, VAppConfigSpec, VAppProperty};

use crate::extra_config::DEFER_CLOUD_INIT;
use crate::unmet::Need;
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::step::Step;

use user_data::{Told, Transport};

/// The keys that cloud-init reads. All are always written: a template's own must not shine through.
pub const GUESTINFO: [&str; 6] = [
    "guestinfo.metadata",
    "guestinfo.metadata.encoding",
    "guestinfo.userdata",
    "guestinfo.userdata.encoding",
    "guestinfo.vendordata",
    "guestinfo.vendordata.encoding",
];
/// ExtraConfig: what the user gave when the guest was told last, so that only his changes are told again.
pub const HASH: &str = "vmservice.bootstrapHash";

/// What the guest is told. Never printed: it holds the cluster's keys.
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

/// What is known of a machine beside what its user wants it to be told.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Who the machine is.
    pub identity: Identity,
    /// Its cards as they shall be; none leaves those that it has.
    pub cards: &'a [Card],
    /// How many cards it has where none are wanted.
    pub present: usize,
    /// Its OVF properties.
    pub properties: &'a [VAppProperty],
    /// Its image lets cloud-init wait for VMware Tools.
    pub defers: bool,
    /// Name servers and what else all guests are told.
    pub network: &'a GuestNetwork,
}

impl Surroundings<'_> {
    /// How many cards the machine will have.
    fn count(&self) -> usize {
        if self.cards.is_empty() { self.present } else { self.cards.len() }
    }
}

/// What the guest of `vm` is told, of `told` and of what is known of its surroundings.
pub fn bootstrap(vm: &VirtualMachine, told: &Told, around: &Surroundings<'_>) -> Need<Bootstrap> {
    let mut bootstrap = match told.transport {
        Transport::None => Bootstrap::default(),
        Transport::ExtraConfig => cloud_init::verbatim(vm, told, around)?,
        Transport::CloudInit => cloud_init::guestinfo(vm, told, around)?,
        Transport::CloudinitPrep => cloud_init::customised(vm, told, around)?,
        Transport::OvfEnv | Transport::VAppConfig | Transport::Sysprep => {
            properties::changed(vm, told, around)?
        }
    };
    let linux = match told.transport {
        Transport::None | Transport::OvfEnv => true,
        // Cloud-init sets up the guest by itself, and VMware Tools would reboot it halfway.
        Transport::ExtraConfig => bootstrap.v_app != VApp::Removed,
        Transport::CloudInit | Transport::CloudinitPrep | Transport::VAppConfig => false,
        Transport::Sysprep => {
            bootstrap.customization = Some(customization::sysprep(vm, told, around)?);
            false
        }
    };
    if linux {
        bootstrap.customization = Some(customization::linux(vm, around));
    }
    if told.uncustomised {
        bootstrap.customization = None;
    }
    if bootstrap.customization.is_some() {
        bootstrap.extra_config.insert("vmware.tools.gosc.ignoretoolscheck".into(), "TRUE".into());
        if around.defers && told.transport != Transport::CloudinitPrep {
            bootstrap.extra_config.insert(DEFER_CLOUD_INIT.into(), "enabled".into());
        }
    }
    bootstrap.extra_config.insert(HASH.into(), told.hash(around.identity.bios));
    Ok(bootstrap)
}

impl Bootstrap {
    /// ExtraConfig in whole: what cloud-init reads and is not told is blank, whatever the template has.
    pub fn entries(&self) -> impl Iterator<Item = (String, String)> {
        let blank = GUESTINFO.iter().filter(|key| !self.extra_config.contains_key(**key));
        let told = self.extra_config.iter().map(|(key, value)| (key.clone(), value.clone()));
        told.chain(blank.map(|key| ((*key).to_owned(), String::new())))
    }

    /// The change of OVF properties, and whether they go.
    pub fn v_app_config(&self) -> (Option<VAppConfigSpec>, Option<bool>) {
        match &self.v_app {
            VApp::Left => (None, None),
            VApp::Removed => (None, Some(true)),
            VApp::Changed(spec) => (Some(spec.clone()), None),
        }
    }

    /// The steps by which a machine that is off is told anew. The last notes what was told.
    pub fn steps(&self) -> Vec<Step> {
        let customise = self.customization.clone().map(|spec| Step::Customize(Box::new(spec)));
        let (v_app_config, v_app_config_removed) = self.v_app_config();
        let extra_config = self.entries().collect();
        let spec = ConfigSpec { extra_config, v_app_config, v_app_config_removed, ..ConfigSpec::default() };
        customise.into_iter().chain([Step::Reconfigure(Box::new(spec))]).collect()
    }
}

/// Search domains are for the nodes of clusters only: others may not live in the cluster's domain.
fn search<'a>(vm: &VirtualMachine, around: &Surroundings<'a>) -> &'a [String] {
    let roles = [label::CAPW_CLUSTER_ROLE, label::CAPV_CLUSTER_ROLE];
    let node = roles.iter().any(|role| vm.labels().contains_key(*role));
    if node { &around.network.search } else { &[] }
}
