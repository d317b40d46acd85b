//! Fixtures that many tests share.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::Condition;
use api::vmop::VirtualMachine;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use vsphere::inventory::{Configuration, GuestState, PowerState};
use vsphere::{Allocation, Backing, Devices, DiskController, MoRef, NicKind, VirtualDisk, VirtualNic, Vm};

use crate::device_check::DeviceKinds;
use crate::templates::GoldenTemplate;
use crate::vcenter::Placement;
use crate::vcenter::mark::Mark;
use crate::virtualmachine::bootstrap::data::{Bootstrap, VApp};
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::identity::uuids::Identity;
use crate::virtualmachine::needs::{Creation, Needs};
use crate::virtualmachine::nic::adapter::{Addressing, Nic, StaticAddress};
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::storage::class::Storage;

/// Returns a fixed time plus `minute` minutes.
pub fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + minute * 60).unwrap()
}

/// Formats a condition as one line: type, status, severity, reason and message. Absent fields are omitted.
pub fn condition_line(condition: &Condition) -> String {
    let parts = [condition.type_.as_ref(), condition.status.as_ref()];
    let words = [&condition.severity, &condition.reason, &condition.message];
    let words = words.into_iter().filter_map(Option::as_deref);
    parts.into_iter().chain(words).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" | ")
}

/// Returns a running VM without a mark.
pub fn unmarked_vm(id: &str, name: &str) -> Vm {
    Vm {
        moref: MoRef::vm(id),
        name: name.to_owned(),
        folder: Some(MoRef::folder("group-v9")),
        pool: Some(MoRef::pool("resgroup-9")),
        host: Some(MoRef::host("host-1")),
        template: false,
        power_state: Some(PowerState::On),
        question: None,
        connection_state: "connected".to_owned(),
        configuration: Configuration::Current,
        uuid: None,
        instance_uuid: None,
        managed_by: None,
        extra_config: BTreeMap::new(),
        disks: None,
        devices: None,
        num_cpus: 2,
        memory_mib: 4096,
        cpu_allocation: Allocation::default(),
        memory_allocation: Allocation::default(),
        change_version: String::new(),
        change_tracking: None,
        hardware_version: "vmx-19".to_owned(),
        guest: GuestState::default(),
    }
}

/// Returns a control plane node's VirtualMachine as capw creates it, with all defaults.
pub fn virtual_machine() -> VirtualMachine {
    serde_json::from_value(json!({
        "metadata": {
            "name": "cp-0", "namespace": "ns", "generation": 2,
            "finalizers": ["virtualmachine.vmoperator.vmware.com"],
        },
        "spec": {
            "imageName": "photon", "className": "guaranteed-small", "powerState": "poweredOn",
            "storageClass": "gold", "resourcePolicyName": "c",
            "networkInterfaces": [{"networkName": "c-vnet", "networkType": "nsx-t"}],
            "vmMetadata": {"secretName": "cp-0-cloud-init", "transport": "ExtraConfig"},
            "readinessProbe": {"tcpSocket": {"port": 6443}},
            "biosUUID": "42370000-0000-4000-8000-000000000001",
            "instanceUUID": "42370000-0000-4000-8000-000000000001",
        },
    }))
    .unwrap()
}

/// Returns [`virtual_machine`] with an annotation.
pub fn annotated(key: &str, value: &str) -> VirtualMachine {
    let mut vm = virtual_machine();
    vm.annotations_mut().insert(key.to_owned(), value.to_owned());
    vm
}

/// Returns [`virtual_machine`] with disks, given as names and sizes.
pub fn with_volumes(volumes: &[(&str, &str)]) -> VirtualMachine {
    let mut vm = virtual_machine();
    vm.spec.volumes = volumes.iter().map(|(name, size)| volume(name, size, None)).collect();
    vm
}

/// Returns [`virtual_machine`] with bootstrap data in a Secret and that transport. An empty transport means no
/// bootstrap data.
pub fn with_transport(transport: &str) -> VirtualMachine {
    let mut vm = virtual_machine();
    let data = || serde_json::from_value(json!({"secretName": "s", "transport": transport})).unwrap();
    vm.spec.vm_metadata = (!transport.is_empty()).then(data);
    vm
}

/// Returns Secret data.
pub fn secret_data(data: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

/// Returns static NIC addresses, given as address, prefix length and gateway.
pub fn fixed(addresses: &[(&str, u8, &str)]) -> Addressing {
    let address = |(ip, prefix, gateway): &(&str, u8, &str)| StaticAddress {
        ip: ip.parse().unwrap(),
        prefix: *prefix,
        gateway: gateway.parse().ok(),
    };
    Addressing::Static(addresses.iter().map(address).collect())
}

/// Returns the placement for all fixtures.
pub fn place() -> Placement {
    Placement { folder: MoRef::folder("group-v9"), pool: MoRef::pool("resgroup-9") }
}

/// Returns a NIC with only these fields.
pub fn virtual_nic(key: i32, kind: NicKind) -> VirtualNic {
    VirtualNic { key, kind, backing: None, mac: None, address: None, external_id: None, connects: true }
}

/// Returns a template's devices: one disk, its controller and one NIC.
pub fn devices() -> Devices {
    let controller =
        DiskController { key: 1000, kind: "ParaVirtualSCSIController", bus: 0, reserved_unit: Some(7) };
    let disk = VirtualDisk {
        key: 2000,
        controller: Some(1000),
        unit: Some(0),
        capacity: 20 << 30,
        file: Some("[ds0] photon-x/photon-x.vmdk".to_owned()),
        datastore: Some(MoRef::datastore("datastore-1")),
        ..VirtualDisk::default()
    };
    Devices {
        change_version: "1".to_owned(),
        disks: vec![disk],
        nics: vec![virtual_nic(4000, NicKind::Vmxnet3)],
        controllers: vec![controller],
    }
}

/// Returns the needs of a VM to be created, all of them met.
pub fn needs() -> Needs {
    let template = GoldenTemplate {
        moref: MoRef::vm("vm-7"),
        snapshot: MoRef::new("VirtualMachineSnapshot", "snapshot-1"),
        name: "photon-x".to_owned(),
        devices: devices(),
        properties: Vec::new(),
        defers: false,
    };
    let allocation =
        |reservation| Allocation { reservation: Some(reservation), limit: None, expandable: None };
    let extra_config = [("guestinfo.metadata", "bWV0YQ=="), ("guestinfo.metadata.encoding", "base64")];
    Needs {
        class: Ok(Size {
            cpus: 2,
            memory_mib: 4096,
            cpu: allocation(4588),
            memory: allocation(4096),
            config: None,
        }),
        image: Ok(Arc::new(template)),
        storage: Ok(Storage {
            policy: None,
            datastore: Some(MoRef::datastore("datastore-1")),
            ..Storage::default()
        }),
        nics: Ok(vec![Nic::plain(
            NicKind::Vmxnet3,
            Backing::Network { name: "VM Network".into(), network: None },
        )]),
        bootstrap: Ok(Bootstrap {
            extra_config: extra_config.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            v_app: VApp::Removed,
            customization: None,
        }),
        placement: Ok(place()),
    }
}

/// Returns the facts about [`virtual_machine`] for this lookup result.
pub fn facts(found: Found) -> Facts {
    let uuid = uuid::Uuid::parse_str("42370000-0000-4000-8000-000000000001").unwrap();
    let identity = Identity { bios: uuid, instance: uuid };
    let now = "2026-11-21T13:00:00Z".parse().unwrap();
    let mut facts = Facts::new(identity, Mark::new("ns", "cp-0", "s1"), found, now);
    facts.runtime.host = Some("esx-1".into());
    facts
}

/// Returns the facts about [`virtual_machine`] when it must be created.
pub fn facts_of_creation(needs: Needs) -> Facts {
    let creation = Creation {
        needs,
        nic_requests: Vec::new(),
        template_request: None,
        image_missing: false,
        direct: false,
        proven_devices: DeviceKinds::default(),
    };
    Facts { creation: Some(Box::new(creation)), ..facts(Found::Absent) }
}

/// Returns [`virtual_machine`]'s running VM in vCenter, with its mark.
pub fn vsphere_vm() -> Vm {
    let facts = facts(Found::Absent);
    let mut vm = unmarked_vm("vm-8", "cp-0");
    vm.uuid = Some(facts.identity.bios);
    vm.instance_uuid = Some(facts.identity.instance);
    vm.extra_config.extend(facts.mark.extra_config());
    vm
}

/// Returns [`vsphere_vm`] with an address that the guest reports.
pub fn addressed_vm() -> Vm {
    let mut vm = vsphere_vm();
    vm.guest.ip = Some("10.1.2.3".into());
    vm
}

/// Returns a vSphere volume with this name, size and device key.
pub fn volume(name: &str, size: &str, key: Option<i32>) -> api::vmop::VirtualMachineVolume {
    serde_json::from_value(json!({
        "name": name, "vSphereVolume": { "capacity": { "ephemeral-storage": size }, "deviceKey": key },
    }))
    .unwrap()
}
