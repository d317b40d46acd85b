//! Network adapters, and the changes that add, edit and remove devices.

use super::disk::{DiskChange, DiskChangeFields};
use super::profile::profiles;
use crate::{MoRef, Object, Value};

/// A change to the virtual hardware.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChange {
    /// Adds a network adapter. Its key must be negative and unique in the spec.
    Add(VirtualNic),
    /// Replaces the settings of the network adapter with the same key.
    Edit(VirtualNic),
    /// Removes the network adapter with the same key.
    Remove(VirtualNic),
    /// Adds, grows or removes a disk, or adds a disk controller.
    Disk(DiskChange),
    /// Changes any other device.
    Other {
        /// The operation: `add`, `edit` or `remove`.
        operation: &'static str,
        /// The operation on disk files: `create`, `destroy` or `replace`.
        file_operation: Option<&'static str>,
        /// The device object to send.
        device: Object,
    },
}

/// The network to which a clone's NIC connects. A clone's location spec can't change any other device setting.
#[derive(Clone, Debug, PartialEq)]
pub struct NicBacking {
    /// The device key of the template's NIC.
    pub key: i32,
    /// The NIC model, which must equal the template's.
    pub kind: NicKind,
    /// The network that the NIC connects to.
    pub backing: Backing,
}

impl From<NicBacking> for Value {
    fn from(nic: NicBacking) -> Self {
        let device =
            Object::new(nic.kind.type_name()).with("key", nic.key).with("backing", Self::from(nic.backing));
        Object::new("VirtualDeviceConfigSpec").with("operation", "edit").with("device", device).into()
    }
}

impl From<DeviceChange> for Value {
    fn from(change: DeviceChange) -> Self {
        let nic = |operation, nic: VirtualNic| (operation, None, Self::from(nic), Vec::new());
        let (operation, file_operation, device, policies) = match change {
            DeviceChange::Add(added) => nic("add", added),
            DeviceChange::Edit(edited) => nic("edit", edited),
            DeviceChange::Remove(removed) => nic("remove", removed),
            DeviceChange::Disk(change) => {
                let DiskChangeFields { operation, file_operation, device, profiles } = change.into();
                (operation, file_operation, device.into(), profiles)
            }
            DeviceChange::Other { operation, file_operation, device } => {
                (operation, file_operation, device.into(), Vec::new())
            }
        };
        Object::new("VirtualDeviceConfigSpec")
            .with("operation", operation)
            .with_some("fileOperation", file_operation)
            .with("device", device)
            .with_list("profile", profiles(policies))
            .into()
    }
}

/// A virtual network adapter (vSphere's `VirtualEthernetCard`).
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualNic {
    /// The device key: assigned by vCenter, or negative for a new NIC.
    pub key: i32,
    /// The NIC model that the guest sees.
    pub kind: NicKind,
    /// The network that the NIC connects to. In an edit or a removal, `None` keeps the current network.
    pub backing: Option<Backing>,
    /// The MAC address that the network provider assigned. If `None`, vCenter assigns an address.
    pub mac: Option<String>,
    /// The current MAC address of an existing NIC, whether assigned manually or by vCenter. Never sent.
    pub address: Option<String>,
    /// The network provider's port ID, which NSX reads.
    pub external_id: Option<String>,
    /// True if the NIC connects at power-on. Never sent: a NIC that is sent with a backing always connects.
    pub connects: bool,
}

/// A network adapter model, which determines the hardware that the guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicKind {
    /// The paravirtual NIC, which is the default.
    #[default]
    Vmxnet3,
    /// A legacy paravirtual NIC.
    Vmxnet2,
    /// An emulated Intel 82545EM.
    E1000,
    /// An emulated Intel 82574.
    E1000e,
    /// An emulated AMD NIC.
    Pcnet32,
}

impl NicKind {
    /// Returns the vSphere device type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Vmxnet3 => "VirtualVmxnet3",
            Self::Vmxnet2 => "VirtualVmxnet2",
            Self::E1000 => "VirtualE1000",
            Self::E1000e => "VirtualE1000e",
            Self::Pcnet32 => "VirtualPCNet32",
        }
    }

    /// Returns the model for a vSphere device type, or `None` for an unknown type.
    pub fn from_type_name(name: &str) -> Option<Self> {
        [Self::Vmxnet3, Self::Vmxnet2, Self::E1000, Self::E1000e, Self::Pcnet32]
            .into_iter()
            .find(|kind| kind.type_name() == name)
    }
}

/// The network that a network adapter connects to.
#[derive(Clone, Debug, PartialEq)]
pub enum Backing {
    /// A port group of a standard switch.
    Network {
        /// The network's name.
        name: String,
        /// The reference to the network.
        network: Option<MoRef>,
    },
    /// A port group of a distributed switch.
    Portgroup {
        /// The switch's UUID.
        switch_uuid: String,
        /// The port group's key, which is usually its MoID.
        key: String,
    },
    /// An NSX segment that vCenter shows as an opaque network.
    Opaque {
        /// The segment's ID.
        id: String,
        /// The opaque network type, such as `nsx.LogicalSwitch`.
        kind: String,
    },
}

impl From<Backing> for Value {
    fn from(backing: Backing) -> Self {
        match backing {
            Backing::Network { name, network } => Object::new("VirtualEthernetCardNetworkBackingInfo")
                .with("deviceName", name)
                .with_some("network", network),
            Backing::Portgroup { switch_uuid, key } => {
                let port = Object::new("DistributedVirtualSwitchPortConnection")
                    .with("switchUuid", switch_uuid)
                    .with("portgroupKey", key);
                Object::new("VirtualEthernetCardDistributedVirtualPortBackingInfo").with("port", port)
            }
            Backing::Opaque { id, kind } => Object::new("VirtualEthernetCardOpaqueNetworkBackingInfo")
                .with("opaqueNetworkId", id)
                .with("opaqueNetworkType", kind),
        }
        .into()
    }
}

impl From<VirtualNic> for Value {
    fn from(nic: VirtualNic) -> Self {
        let connectable = nic.backing.is_some().then(|| {
            Object::new("VirtualDeviceConnectInfo")
                .with("startConnected", true)
                .with("allowGuestControl", true)
                .with("connected", true)
        });
        let address_type = nic.mac.as_ref().map(|_| "manual");
        Object::new(nic.kind.type_name())
            .with("key", nic.key)
            .with_some("backing", nic.backing)
            .with_some("connectable", connectable)
            .with_some("addressType", address_type)
            .with_some("macAddress", nic.mac)
            .with_some("externalId", nic.external_id)
            .into()
    }
}

impl VirtualNic {
    /// Reads a network adapter; returns `None` for any other device. `mac` is set only if the address was assigned
    /// manually.
    pub fn read(device: &Value) -> Option<Self> {
        let kind = NicKind::from_type_name(device.type_name())?;
        let text = |name: &str| device.get(name).as_str().map(str::to_owned);
        Some(Self {
            key: i32::try_from(device.get("key").as_i64()?).ok()?,
            kind,
            backing: Backing::read(device.get("backing")),
            mac: text("macAddress").filter(|_| device.get("addressType").as_str() == Some("manual")),
            address: text("macAddress").map(|mac| mac.to_ascii_lowercase()),
            external_id: text("externalId"),
            connects: device.get("connectable").get("startConnected").as_bool().unwrap_or(true),
        })
    }
}

impl Backing {
    fn read(backing: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| value.get(name).as_str().unwrap_or_default().to_owned();
        match backing.type_name() {
            "VirtualEthernetCardNetworkBackingInfo" => Some(Self::Network {
                name: text(backing, "deviceName"),
                network: backing.get("network").as_moref().cloned(),
            }),
            "VirtualEthernetCardDistributedVirtualPortBackingInfo" => {
                let port = backing.get("port");
                Some(Self::Portgroup {
                    switch_uuid: text(port, "switchUuid"),
                    key: text(port, "portgroupKey"),
                })
            }
            "VirtualEthernetCardOpaqueNetworkBackingInfo" => Some(Self::Opaque {
                id: text(backing, "opaqueNetworkId"),
                kind: text(backing, "opaqueNetworkType"),
            }),
            _ => None,
        }
    }
}
