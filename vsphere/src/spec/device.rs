//! Network adapters, as they are added, changed and removed.

use super::disk::{Change, DiskChange};
use super::profile::profiles;
use crate::{MoRef, Object, Value};

/// One change of the virtual hardware.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChange {
    /// A new network adapter; its key must be negative and unlike every other in the same spec.
    Add(VirtualNic),
    /// The network adapter with this key becomes this one.
    Edit(VirtualNic),
    /// The network adapter with this key goes.
    Remove(VirtualNic),
    /// A disk or its controller comes, grows or goes.
    Disk(DiskChange),
    /// Any other device, with the operation (`add`, `edit`, `remove`) and, where files are meant, `create` or `destroy`.
    Other {
        /// `add`, `edit` or `remove`.
        operation: &'static str,
        /// `create`, `destroy` or `replace` for files of disks.
        file_operation: Option<&'static str>,
        /// The device.
        device: Object,
    },
}

/// The network of a template's NIC in a clone of it. A clone's location can change nothing else of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct NicBacking {
    /// The key of the template's NIC.
    pub key: i32,
    /// What the guest sees; it is the template's.
    pub kind: NicKind,
    /// What the NIC is plugged into.
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
                let Change { operation, file_operation, device, profiles } = change.into();
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

/// A network adapter: vSphere's VirtualEthernetCard.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualNic {
    /// The device's key: the one that vCenter gave, or a negative one for a new NIC.
    pub key: i32,
    /// What the guest sees.
    pub kind: NicKind,
    /// What it is plugged into; `None` leaves it (edit, remove).
    pub backing: Option<Backing>,
    /// Set where the network provider chose it; else vCenter does.
    pub mac: Option<String>,
    /// The MAC that a NIC that is there has, whoever chose it. Never sent.
    pub address: Option<String>,
    /// The network provider's own name of the port, which NSX reads.
    pub external_id: Option<String>,
    /// Whether it is connected when the VM starts. Never sent: those that are sent are.
    pub connects: bool,
}

/// The model of a network adapter: what the guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicKind {
    /// The paravirtual NIC, the one to use.
    #[default]
    Vmxnet3,
    /// An old paravirtual NIC.
    Vmxnet2,
    /// An emulated Intel 82545EM.
    E1000,
    /// An emulated Intel 82574.
    E1000e,
    /// An emulated AMD NIC.
    Pcnet32,
}

impl NicKind {
    /// The device's type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Vmxnet3 => "VirtualVmxnet3",
            Self::Vmxnet2 => "VirtualVmxnet2",
            Self::E1000 => "VirtualE1000",
            Self::E1000e => "VirtualE1000e",
            Self::Pcnet32 => "VirtualPCNet32",
        }
    }

    /// The kind by its type's name, if it is one of ours.
    pub fn from_type_name(name: &str) -> Option<Self> {
        [Self::Vmxnet3, Self::Vmxnet2, Self::E1000, Self::E1000e, Self::Pcnet32]
            .into_iter()
            .find(|kind| kind.type_name() == name)
    }
}

/// What a network adapter is plugged into.
#[derive(Clone, Debug, PartialEq)]
pub enum Backing {
    /// A port group of a standard switch.
    Network {
        /// The network's name.
        name: String,
        /// The network.
        network: Option<MoRef>,
    },
    /// A port group of a distributed switch.
    Portgroup {
        /// The switch's UUID.
        switch_uuid: String,
        /// The port group's key, as a rule its MoID.
        key: String,
    },
    /// An NSX segment seen as an opaque network.
    Opaque {
        /// The segment's id.
        id: String,
        /// Such as `nsx.LogicalSwitch`.
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
    /// Reads a network adapter; `None` for any other device. The MAC is kept only where it was set by hand.
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
