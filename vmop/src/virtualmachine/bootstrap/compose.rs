//! Composes the bootstrap data of a guest from what its user gives, by the transport that the user names.
//!
//! All of it goes into the one call that creates the VM. Nothing here waits for what vCenter chooses: a NIC that the guest
//! has to know gets a MAC of ours where the network provider chose none.

use api::vmop::VirtualMachine;

use super::data::{Bootstrap, BootstrapInput, HASH, VApp};
use super::netplan::is_configured;
use super::user_data::{Transport, UserData};
use super::{cloud_init, customization, properties};
use crate::extra_config::DEFER_CLOUD_INIT;
use crate::unmet::Need;
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::nic::adapter::Nic;

/// Whether the guest's data describes its NICs one by one, by their MACs.
pub fn names_nics(data: &UserData, nics: &[Nic], network: &GuestNetwork) -> bool {
    match data.transport {
        Transport::CloudInit | Transport::CloudinitPrep => is_configured(nics, network),
        Transport::ExtraConfig => cloud_init::is_given(nics),
        Transport::None | Transport::OvfEnv | Transport::VAppConfig | Transport::Sysprep => false,
    }
}

/// The bootstrap data of the guest of `vm`.
pub fn compose(vm: &VirtualMachine, data: &UserData, input: &BootstrapInput<'_>) -> Need<Bootstrap> {
    let mut bootstrap = match data.transport {
        Transport::None => Bootstrap::default(),
        Transport::ExtraConfig => cloud_init::verbatim(vm, data, input)?,
        Transport::CloudInit => cloud_init::guestinfo(vm, data, input)?,
        Transport::CloudinitPrep => cloud_init::customised(vm, data, input)?,
        Transport::OvfEnv | Transport::VAppConfig | Transport::Sysprep => {
            properties::changed(vm, data, input)?
        }
    };
    let linux = match data.transport {
        Transport::None | Transport::OvfEnv => true,
        // Cloud-init sets up the guest by itself, and VMware Tools would reboot it halfway.
        Transport::ExtraConfig => bootstrap.v_app != VApp::Removed,
        Transport::CloudInit | Transport::CloudinitPrep | Transport::VAppConfig => false,
        Transport::Sysprep => {
            bootstrap.customization = Some(customization::sysprep(vm, data, input)?);
            false
        }
    };
    if linux {
        bootstrap.customization = Some(customization::linux(vm, input));
    }
    if data.uncustomised {
        bootstrap.customization = None;
    }
    if bootstrap.customization.is_some() {
        bootstrap.extra_config.insert("vmware.tools.gosc.ignoretoolscheck".into(), "TRUE".into());
        if input.defers && data.transport != Transport::CloudinitPrep {
            bootstrap.extra_config.insert(DEFER_CLOUD_INIT.into(), "enabled".into());
        }
    }
    bootstrap.extra_config.insert(HASH.into(), data.hash(input.identity.bios));
    Ok(bootstrap)
}
