//! Composes a guest's bootstrap data from the user's data, for the transport that the user selects.
//!
//! All bootstrap data is part of the single call that creates the VM, so it can't depend on values that vCenter chooses. If the
//! data identifies the NICs by MAC, a MAC is generated for each NIC to which the network provider didn't assign one.

use std::time::Duration;

use api::vmop::VirtualMachine;
use kit::bounded::{Budget, ComputationLimits, compute};
use kube::ResourceExt;

use super::data::{Bootstrap, BootstrapInput, HASH, VApp};
use super::netplan::is_configured;
use super::user_data::{Composed, Transport, UserData};
use super::values::Renderer;
use super::{cloud_init, customization, properties};
use crate::extra_config::DEFER_CLOUD_INIT;
use crate::unmet::Need;
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::nic::adapter::Nic;

/// The limits for composing one VM's bootstrap data. A Secret or ConfigMap is limited to 1 MiB, and a guest reads at most 64
/// KiB per guestinfo key. Real data doesn't compress well enough to exceed these limits.
pub const LIMITS: ComputationLimits = ComputationLimits { bytes: 16 << 20, time: Duration::from_secs(10) };

/// Returns true if the guest's data identifies its NICs by MAC.
pub fn names_nics(data: &UserData, nics: &[Nic], network: &GuestNetwork) -> bool {
    match data.transport {
        Transport::CloudInit | Transport::CloudinitPrep => is_configured(nics, network),
        Transport::ExtraConfig => cloud_init::is_given(nics),
        Transport::None | Transport::OvfEnv | Transport::VAppConfig | Transport::Sysprep => false,
    }
}

/// Composes the bootstrap data for `vm` within [`LIMITS`], on a thread where it doesn't delay other work.
pub async fn compose_within_limits(
    vm: &VirtualMachine,
    data: UserData,
    input: &BootstrapInput<'_>,
) -> Need<Bootstrap> {
    let source = data.source.clone();
    let composed = if data.data.is_empty() {
        // Without user data, this is fast.
        compose(vm, &data, input, &Budget::new(LIMITS.bytes))
    } else {
        let (vm, identity, present, defers) = (vm.clone(), input.identity, input.present, input.defers);
        let (nics, properties) = (input.nics.to_vec(), input.properties.to_vec());
        let network = input.network.clone();
        let namespace = vm.namespace().unwrap_or_default();
        compute(&namespace, LIMITS, move |budget| {
            let (nics, properties, network) = (&nics, &properties, &network);
            compose(
                &vm,
                &data,
                &BootstrapInput { identity, nics, present, properties, defers, network },
                budget,
            )
        })
        .await
    };
    composed.map_err(|error| error.into_unmet(&source))
}

/// Composes the bootstrap data for `vm`. All data that is read and created counts against the budget.
pub fn compose(
    vm: &VirtualMachine,
    data: &UserData,
    input: &BootstrapInput<'_>,
    budget: &Budget,
) -> Composed<Bootstrap> {
    let given = data.data.values().map(|value| value.expose().len()).fold(0, usize::saturating_add);
    budget.spend(given)?;
    let renderer = Renderer::new(vm, data, input, budget);
    let mut bootstrap = match data.transport {
        Transport::None => Bootstrap::default(),
        Transport::ExtraConfig => cloud_init::copy_guestinfo(vm, data, input, budget)?,
        Transport::CloudInit => cloud_init::build_guestinfo(vm, data, input, budget)?,
        Transport::CloudinitPrep => cloud_init::build_customization_data(vm, data, input, budget)?,
        Transport::OvfEnv | Transport::VAppConfig | Transport::Sysprep => properties::changed(&renderer)?,
    };
    let linux = match data.transport {
        Transport::None | Transport::OvfEnv => true,
        // Cloud-init sets up the guest on its own, and guest customization would reboot the guest halfway.
        Transport::ExtraConfig => bootstrap.v_app != VApp::Removed,
        Transport::CloudInit | Transport::CloudinitPrep | Transport::VAppConfig => false,
        Transport::Sysprep => {
            bootstrap.customization = Some(customization::customize_windows(&renderer)?);
            false
        }
    };
    if linux {
        bootstrap.customization = Some(customization::customize_linux(vm, input));
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
