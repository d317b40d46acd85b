//! Converts a stored spec to v1alpha2, and applies volume changes from v1alpha2.

use serde_json::Value;

use crate::Quantity;
use crate::vmop::v1alpha2::{
    AdvancedSpec, BootstrapSpec, CloudInitSpec, LinuxPrepSpec, NetworkInterfaceSpec, NetworkSpec,
    PartialObjectRef, ReservedSpec, SecretKeySelector, SysprepSpec, VAppConfigSpec,
    VirtualMachineSpec as Shown, VirtualMachineVolume as ShownVolume,
};
use crate::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, POWERED_OFF, POWERED_ON, SUSPENDED, TRANSPORT_EXTRA_CONFIG,
    VirtualMachineMetadata, VirtualMachineNetworkInterface, VirtualMachineSpec, VirtualMachineVolume,
};

/// The vSphere device key of an image's first disk.
const BOOT_DISK: i32 = 2000;

/// Converts a stored spec to v1alpha2.
pub(super) fn show(spec: &VirtualMachineSpec) -> Shown {
    // An unset mode means hard in v1alpha1, but TrySoft in v1alpha2.
    let mode = |mode: &Option<String>| Some(operation_mode(mode.as_deref().unwrap_or("hard")));
    Shown {
        image_name: spec.image_name.clone(),
        class_name: spec.class_name.clone(),
        storage_class: spec.storage_class.clone(),
        bootstrap: spec.vm_metadata.as_ref().map(bootstrap),
        network: network(&spec.network_interfaces),
        power_state: spec.power_state.as_deref().map(power_state),
        power_off_mode: mode(&spec.power_off_mode),
        suspend_mode: mode(&spec.suspend_mode),
        restart_mode: mode(&spec.restart_mode),
        next_restart_time: spec.next_restart_time.clone(),
        min_hardware_version: spec.min_hardware_version,
        volumes: spec.volumes.iter().filter_map(claim).collect(),
        readiness_probe: spec.readiness_probe.clone(),
        advanced: advanced(spec),
        reserved: spec
            .resource_policy_name
            .clone()
            .map(|name| ReservedSpec { resource_policy_name: Some(name) }),
    }
}

/// Returns the stored volumes with the claims in `sent`: existing volumes in their order, then new claims.
pub(super) fn with_claims(before: &VirtualMachineSpec, sent: &Shown) -> Vec<VirtualMachineVolume> {
    let asked = |name: &str| sent.volumes.iter().find(|volume| volume.name == name);
    let stay = before.volumes.iter().filter_map(|volume| match (claim(volume), asked(&volume.name)) {
        (None, None) => Some(volume.clone()),
        // Admission rejects a claim with the name of another volume.
        (None, Some(asked)) => Some(new_volume(asked)),
        (Some(_), Some(asked)) => Some(VirtualMachineVolume {
            persistent_volume_claim: asked.persistent_volume_claim.clone(),
            ..volume.clone()
        }),
        (Some(_), None) => None,
    });
    let is_new = |volume: &&ShownVolume| !before.volumes.iter().any(|there| there.name == volume.name);
    stay.chain(sent.volumes.iter().filter(is_new).map(new_volume)).collect()
}

fn new_volume(asked: &ShownVolume) -> VirtualMachineVolume {
    VirtualMachineVolume {
        name: asked.name.clone(),
        persistent_volume_claim: asked.persistent_volume_claim.clone(),
        ..VirtualMachineVolume::default()
    }
}

/// Removes the required fields of `converted` that are missing in `spec`.
pub(super) fn remove_defaults(spec: &Value, converted: &mut Value) {
    let Some(converted) = converted.as_object_mut() else { return };
    for field in ["imageName", "className"] {
        if spec.get(field).is_none() {
            converted.remove(field);
        }
    }
}

/// Returns a volume in v1alpha2, or `None` for the VM's own disks. In a partial object, a volume can lack its source.
fn claim(volume: &VirtualMachineVolume) -> Option<ShownVolume> {
    volume.v_sphere_volume.is_none().then(|| ShownVolume {
        name: volume.name.clone(),
        persistent_volume_claim: volume.persistent_volume_claim.clone(),
    })
}

/// Converts a power state to v1alpha2.
pub(super) fn power_state(state: &str) -> String {
    renamed(state, [(POWERED_ON, "PoweredOn"), (POWERED_OFF, "PoweredOff"), (SUSPENDED, "Suspended")])
}

pub(super) fn operation_mode(mode: &str) -> String {
    renamed(mode, [("hard", "Hard"), ("soft", "Soft"), ("trySoft", "TrySoft")])
}

/// Translates a word into the other version's word. Unknown words stay unchanged.
fn renamed<const N: usize>(word: &str, words: [(&str, &str); N]) -> String {
    words.iter().find(|(old, _)| *old == word).map_or(word, |(_, new)| new).to_owned()
}

fn bootstrap(metadata: &VirtualMachineMetadata) -> BootstrapSpec {
    let object = metadata.secret_name.clone().or_else(|| metadata.config_map_name.clone());
    let key_of = |key: &str| object.clone().map(|name| SecretKeySelector { name, key: key.to_owned() });
    let properties = || Some(VAppConfigSpec { raw_properties: object.clone() });
    let cloud_init = |key: &str| Some(CloudInitSpec { raw_cloud_config: key_of(key) });
    let mut shown = BootstrapSpec::default();
    match metadata.transport.as_deref() {
        Some(TRANSPORT_EXTRA_CONFIG) => shown.cloud_init = cloud_init("guestinfo.userdata"),
        Some("CloudInit") => shown.cloud_init = cloud_init("user-data"),
        Some("OvfEnv") => {
            shown.linux_prep = Some(LinuxPrepSpec { hardware_clock_is_utc: Some(true) });
            shown.v_app_config = properties();
        }
        Some("vAppConfig") => shown.v_app_config = properties(),
        Some("Sysprep") => shown.sysprep = Some(SysprepSpec { raw_sysprep: key_of("unattend") }),
        _ => {}
    }
    shown
}

fn network(interfaces: &[VirtualMachineNetworkInterface]) -> Option<NetworkSpec> {
    let interface = |(at, interface): (usize, &VirtualMachineNetworkInterface)| NetworkInterfaceSpec {
        name: format!("eth{at}"),
        network: network_of(interface),
    };
    (!interfaces.is_empty())
        .then(|| NetworkSpec { interfaces: interfaces.iter().enumerate().map(interface).collect() })
}

fn network_of(interface: &VirtualMachineNetworkInterface) -> Option<PartialObjectRef> {
    let of = match interface.network_type.as_deref() {
        Some(NETWORK_TYPE_DISTRIBUTED) => Some(("netoperator.vmware.com/v1alpha1", "Network")),
        Some(NETWORK_TYPE_NSX_T) => Some(("vmware.com/v1alpha1", "VirtualNetwork")),
        _ => None,
    };
    (of.is_some() || interface.network_name.is_some()).then(|| PartialObjectRef {
        api_version: of.map(|(version, _)| version.to_owned()),
        kind: of.map(|(_, kind)| kind.to_owned()),
        name: interface.network_name.clone(),
    })
}

fn advanced(spec: &VirtualMachineSpec) -> Option<AdvancedSpec> {
    let options = spec.advanced_options.as_ref();
    let provisioning = options.and_then(|options| options.default_volume_provisioning_options.as_ref());
    let mode = provisioning.and_then(|options| match (options.thin_provisioned, options.eager_zeroed) {
        (Some(true), _) => Some("Thin"),
        (_, Some(true)) => Some("ThickEagerZero"),
        (Some(false), _) => Some("Thick"),
        (None, _) => None,
    });
    let shown = AdvancedSpec {
        boot_disk_capacity: boot_disk(spec),
        default_volume_provisioning_mode: mode.map(str::to_owned),
        change_block_tracking: options.and_then(|options| options.change_block_tracking),
    };
    (shown != AdvancedSpec::default()).then_some(shown)
}

/// Returns the requested size of the image's first disk, or `None` if the spec doesn't request a size.
fn boot_disk(spec: &VirtualMachineSpec) -> Option<Quantity> {
    let disks = spec.volumes.iter().filter_map(|volume| volume.v_sphere_volume.as_ref());
    let mut boot = disks.filter(|disk| disk.device_key == Some(BOOT_DISK));
    boot.find_map(|disk| disk.capacity.get("ephemeral-storage").cloned())
}
