//! Converts a v1alpha2 spec back to the stored version.
//!
//! Fields that are read-only in v1alpha2 are converted as well, as far as both versions can represent them, so that
//! admission detects such a change by comparing the result with the stored object.

use serde_json::Value;

use super::error::ConvertError;
use super::spec::{operation_mode, power_state, show, with_claims};
use crate::conversion::write;
use crate::vmop::v1alpha2::{AdvancedSpec, BootstrapSpec, NetworkInterfaceSpec, VirtualMachineSpec as Shown};
use crate::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, POWERED_OFF, POWERED_ON, SUSPENDED, TRANSPORT_EXTRA_CONFIG,
    VirtualMachineAdvancedOptions, VirtualMachineMetadata, VirtualMachineNetworkInterface,
    VirtualMachineSpec, VolumeProvisioningOptions,
};

/// A field in v1alpha2, the stored field, and the function that converts it.
type Field = (&'static str, &'static str, fn(&Shown, &mut VirtualMachineSpec));

const FIELDS: [Field; 15] = [
    ("imageName", "imageName", |sent, spec| spec.image_name.clone_from(&sent.image_name)),
    ("className", "className", |sent, spec| spec.class_name.clone_from(&sent.class_name)),
    ("storageClass", "storageClass", |sent, spec| spec.storage_class.clone_from(&sent.storage_class)),
    ("bootstrap", "vmMetadata", |sent, spec| spec.vm_metadata = sent.bootstrap.as_ref().map(metadata)),
    ("network", "networkInterfaces", |sent, spec| {
        let interfaces = sent.network.iter().flat_map(|network| &network.interfaces);
        spec.network_interfaces = interfaces.map(interface).collect();
    }),
    ("powerState", "powerState", |sent, spec| {
        spec.power_state = sent.power_state.as_deref().map(stored_power_state);
    }),
    ("powerOffMode", "powerOffMode", |sent, spec| {
        spec.power_off_mode = stored_mode(sent.power_off_mode.as_ref());
    }),
    ("suspendMode", "suspendMode", |sent, spec| spec.suspend_mode = stored_mode(sent.suspend_mode.as_ref())),
    ("restartMode", "restartMode", |sent, spec| spec.restart_mode = stored_mode(sent.restart_mode.as_ref())),
    ("nextRestartTime", "nextRestartTime", |sent, spec| {
        spec.next_restart_time.clone_from(&sent.next_restart_time);
    }),
    ("minHardwareVersion", "minHardwareVersion", |sent, spec| {
        spec.min_hardware_version = sent.min_hardware_version;
    }),
    ("volumes", "volumes", |sent, spec| spec.volumes = with_claims(spec, sent)),
    ("readinessProbe", "readinessProbe", |sent, spec| spec.readiness_probe.clone_from(&sent.readiness_probe)),
    ("advanced", "advancedOptions", |sent, spec| spec.advanced_options = sent.advanced.as_ref().map(options)),
    ("reserved", "resourcePolicyName", |sent, spec| {
        spec.resource_policy_name =
            sent.reserved.as_ref().and_then(|reserved| reserved.resource_policy_name.clone());
    }),
];

/// Applies the fields that `sent` changes to the stored spec `kept`, and returns the result. `before` is the same spec as `kept`,
/// in parsed form.
pub(super) fn restore(
    mut kept: Value,
    before: &VirtualMachineSpec,
    sent: &Shown,
) -> Result<Value, ConvertError> {
    let (shown, asked) = (write(&show(before))?, write(sent)?);
    let mut spec = before.clone();
    let changed: Vec<_> = FIELDS.iter().filter(|(field, ..)| shown.get(field) != asked.get(field)).collect();
    for (_, _, store) in &changed {
        store(sent, &mut spec);
    }
    let mut stored = write(&spec)?;
    for (_, field, _) in changed {
        match stored.get_mut(field) {
            Some(value) => kept[*field] = value.take(),
            None => drop(kept.as_object_mut().and_then(|kept| kept.remove(*field))),
        }
    }
    Ok(kept)
}

/// Converts a power state to the stored version.
pub(super) fn stored_power_state(shown: &str) -> String {
    let stored = [POWERED_ON, POWERED_OFF, SUSPENDED].into_iter().find(|stored| power_state(stored) == shown);
    stored.unwrap_or(shown).to_owned()
}

fn stored_mode(shown: Option<&String>) -> Option<String> {
    let shown = shown?;
    let stored = ["hard", "soft", "trySoft"].into_iter().find(|stored| operation_mode(stored) == *shown);
    Some(stored.unwrap_or(shown).to_owned())
}

fn metadata(bootstrap: &BootstrapSpec) -> VirtualMachineMetadata {
    let BootstrapSpec { cloud_init, linux_prep, sysprep, v_app_config } = bootstrap;
    let properties = || v_app_config.as_ref().and_then(|properties| properties.raw_properties.clone());
    let (transport, secret_name) = if let Some(cloud_init) = cloud_init {
        let secret = cloud_init.raw_cloud_config.clone().unwrap_or_default();
        let transport = if secret.key == "user-data" { "CloudInit" } else { TRANSPORT_EXTRA_CONFIG };
        (Some(transport), Some(secret.name))
    } else if let Some(sysprep) = sysprep {
        (Some("Sysprep"), sysprep.raw_sysprep.clone().map(|secret| secret.name))
    } else if linux_prep.is_some() {
        (Some("OvfEnv"), properties())
    } else {
        (v_app_config.is_some().then_some("vAppConfig"), properties())
    };
    VirtualMachineMetadata {
        transport: transport.map(str::to_owned),
        secret_name: secret_name.filter(|name| !name.is_empty()),
        ..VirtualMachineMetadata::default()
    }
}

fn interface(shown: &NetworkInterfaceSpec) -> VirtualMachineNetworkInterface {
    let network = shown.network.clone().unwrap_or_default();
    let network_type = match network.kind.as_deref() {
        Some("Network") => Some(NETWORK_TYPE_DISTRIBUTED.to_owned()),
        Some("VirtualNetwork") => Some(NETWORK_TYPE_NSX_T.to_owned()),
        _ => None,
    };
    VirtualMachineNetworkInterface {
        network_type,
        network_name: network.name,
        ..VirtualMachineNetworkInterface::default()
    }
}

fn options(advanced: &AdvancedSpec) -> VirtualMachineAdvancedOptions {
    let mode = |thin_provisioned, eager_zeroed| VolumeProvisioningOptions { thin_provisioned, eager_zeroed };
    let provisioning = match advanced.default_volume_provisioning_mode.as_deref() {
        Some("Thin") => Some(mode(Some(true), None)),
        Some("ThickEagerZero") => Some(mode(None, Some(true))),
        Some("Thick") => Some(mode(Some(false), None)),
        _ => None,
    };
    VirtualMachineAdvancedOptions {
        default_volume_provisioning_options: provisioning,
        change_block_tracking: advanced.change_block_tracking,
    }
}
