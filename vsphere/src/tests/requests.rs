//! Snapshot tests for each method's request, which must have its fields in WSDL order.

use uuid::Uuid;

use super::fake::{Fake, moref};
use crate::{
    Allocation, Backing, CloneSpec, ConfigSpec, CustomizationAdapter, CustomizationIdentity,
    CustomizationSpec, DeviceChange, DiskChange, DiskLocator, DiskMoveType, DiskProvisioning, FixedIpv4,
    ManagedBy, MoRef, NicBacking, NicKind, OVF_TRANSPORT_GUEST_INFO, RelocateSpec, VAppChange, VAppProperty,
    VirtualDisk, VirtualNic, WireKind,
};

async fn recorder(wire: WireKind) -> Fake {
    Fake::start(wire, |seen| if seen.call().contains("_Task") { moref("Task", "task-1") } else { None }).await
}

/// Returns the snapshot name, which is separate for SOAP.
fn named(name: &str, wire: WireKind) -> String {
    match wire {
        WireKind::ViJson => name.to_owned(),
        WireKind::Soap => format!("{name}_soap"),
    }
}

/// Returns all requests after the login: for VI/JSON, the path and the body on separate lines; for SOAP, only the body.
fn lines(fake: &Fake) -> String {
    let seen = fake.seen().into_iter().skip(3);
    let lines = seen.map(|seen| {
        if let Some((_, body)) = seen.raw.split_once("<soapenv:Body>") {
            return format!("{}\n", body.trim_end_matches("</soapenv:Body></soapenv:Envelope>"));
        }
        let path = seen.path.strip_prefix("/sdk/vim25/8.0.3.0").unwrap_or(&seen.path).to_owned();
        if seen.body.is_empty() { format!("{path}\n") } else { format!("{path}\n    {}\n", seen.body) }
    });
    lines.collect()
}

fn everything() -> ConfigSpec {
    ConfigSpec {
        change_version: Some("2026-01-01T00:00:00Z".into()),
        name: Some("a/b".into()),
        uuid: Some(Uuid::from_u128(1).to_string()),
        instance_uuid: Some(Uuid::from_u128(2).to_string()),
        guest_id: Some("vmwarePhoton64Guest".into()),
        annotation: Some("notes".into()),
        pending_customization: Some(String::new()),
        num_cpus: Some(2),
        num_cores_per_socket: Some(1),
        memory_mib: Some(4096),
        device_change: [DeviceChange::Remove(nic(4001, None))].into_iter().chain(disks()).collect(),
        cpu_allocation: Some(Allocation { reservation: Some(1000), expandable: None, limit: Some(-1) }),
        memory_allocation: Some(Allocation { reservation: Some(4096), ..Allocation::default() }),
        extra_config: vec![
            ("guestinfo.metadata".into(), "H4sI".into()),
            ("guestinfo.vendordata".into(), String::new()),
        ]
        .into(),
        v_app_config: Some(VAppChange {
            properties: vec![property()],
            transports: vec![OVF_TRANSPORT_GUEST_INFO.into()],
        }),
        v_app_config_removed: Some(true),
        change_tracking_enabled: Some(false),
        firmware: Some("efi".into()),
        managed_by: Some(ManagedBy {
            extension_key: "com.vmware.vcenter.wcp".into(),
            kind: "VirtualMachine".into(),
        }),
        profiles: vec!["policy-1".into()],
        base: None,
    }
}

fn property() -> VAppProperty {
    let text = |text: &str| Some(text.to_owned());
    VAppProperty {
        key: 3,
        class_id: text("class"),
        instance_id: text("instance"),
        id: "ip0".into(),
        category: text("Network"),
        label: text("Address"),
        kind: text("string"),
        user_configurable: true,
        default_value: text("dhcp"),
        value: text("10.0.0.5"),
        description: text("The address."),
    }
}

fn customization(identity: CustomizationIdentity, adapters: Vec<CustomizationAdapter>) -> CustomizationSpec {
    let dns_servers = vec!["10.0.0.53".to_owned()];
    CustomizationSpec { identity, dns_suffixes: vec!["lab".into()], dns_servers, adapters }
}

fn linux() -> CustomizationSpec {
    let fixed = FixedIpv4 {
        address: "10.0.0.5".into(),
        mask: "255.255.255.0".into(),
        gateways: vec!["10.0.0.1".into()],
    };
    let both = CustomizationAdapter {
        mac: Some("00:50:56:12:34:56".into()),
        ipv4: Some(fixed),
        ipv6: vec![("2001:db8::5".into(), 64)],
        gateways6: vec!["2001:db8::1".into()],
        dns_servers: vec!["10.0.0.53".into()],
    };
    let host_name = "cp-0".to_owned();
    let identity = CustomizationIdentity::LinuxPrep { host_name, domain: String::new() };
    customization(identity, vec![both, CustomizationAdapter::default()])
}

fn disk() -> VirtualDisk {
    VirtualDisk {
        key: 2001,
        controller: Some(1000),
        unit: Some(1),
        capacity: 1 << 30,
        file: Some("[ds0] cp-0/cp-0_1.vmdk".into()),
        mode: "persistent".into(),
        ..VirtualDisk::default()
    }
}

fn disks() -> impl Iterator<Item = DeviceChange> {
    let disk = disk();
    let create = DiskChange::Create {
        key: -2,
        controller: -1,
        unit: 0,
        capacity: 2 << 30,
        provisioning: DiskProvisioning::Thin,
        datastore: Some("ds1".into()),
        profiles: vec!["policy-1".into()],
    };
    let changes = [
        DiskChange::AddController { key: -1, bus: 1 },
        create,
        DiskChange::Grow(disk.clone(), 2 << 30),
        DiskChange::Detach(disk.clone()),
        DiskChange::Destroy(disk),
    ];
    changes.into_iter().map(DeviceChange::Disk)
}

fn nic(key: i32, backing: Option<Backing>) -> VirtualNic {
    VirtualNic {
        key,
        kind: NicKind::Vmxnet3,
        backing,
        mac: None,
        address: None,
        external_id: None,
        connects: true,
    }
}

fn linked_clone() -> CloneSpec {
    let portgroup = Backing::Portgroup { switch_uuid: "50 2f".into(), key: "dvportgroup-12".into() };
    let segment = Backing::Opaque { id: "seg-1".into(), kind: "nsx.LogicalSwitch".into() };
    let network =
        Backing::Network { name: "VM Network".into(), network: Some(MoRef::new("Network", "network-7")) };
    let named = VirtualNic {
        mac: Some("00:50:56:12:34:56".into()),
        external_id: Some("port-1".into()),
        ..nic(4000, Some(portgroup.clone()))
    };
    let device_change = vec![
        DeviceChange::Edit(named),
        DeviceChange::Add(nic(-1, Some(segment))),
        DeviceChange::Add(nic(-2, Some(network))),
    ];
    CloneSpec {
        location: RelocateSpec {
            datastore: Some(MoRef::datastore("datastore-15")),
            disk_move_type: Some(DiskMoveType::CreateNewChildDiskBacking),
            pool: Some(MoRef::pool("resgroup-8")),
            host: Some(MoRef::host("host-20")),
            nics: vec![NicBacking { key: 4000, kind: NicKind::Vmxnet3, backing: portgroup }],
            disks: vec![DiskLocator {
                key: 2000,
                datastore: MoRef::datastore("datastore-15"),
                move_type: Some(DiskMoveType::MoveAllDiskBackingsAndDisallowSharing),
                provisioning: DiskProvisioning::EagerZeroed,
                profiles: vec!["policy-2".into()],
            }],
            profiles: vec!["policy-1".into()],
        },
        template: false,
        config: Some(ConfigSpec { device_change, ..everything() }),
        customization: Some(linux()),
        power_on: true,
        snapshot: Some(MoRef::new("VirtualMachineSnapshot", "snapshot-7")),
    }
}

async fn vms(wire: WireKind) {
    let fake = recorder(wire).await;
    let client = fake.client().await;
    let (vm, folder) = (MoRef::vm("vm-1"), MoRef::folder("group-v3"));
    client.clone_vm(&MoRef::vm("vm-0"), &folder, "100%", linked_clone()).await.unwrap();
    client.reconfigure_vm(&vm, everything()).await.unwrap();
    let metadata = "instance-id: i".to_owned();
    let userdata = Some("#cloud-config".to_owned());
    for identity in [
        CustomizationIdentity::SysprepText("<unattend/>".into()),
        CustomizationIdentity::CloudinitPrep { metadata, userdata },
    ] {
        client.customize_vm(&vm, customization(identity, Vec::new())).await.unwrap();
    }
    client.promote_disks(&vm, &[disk()]).await.unwrap();
    for task in [client.power_on(&vm).await, client.power_off(&vm).await, client.suspend(&vm).await] {
        assert_eq!(task.unwrap(), MoRef::task("task-1"));
    }
    client.reset(&vm).await.unwrap();
    client.shutdown_guest(&vm).await.unwrap();
    client.reboot_guest(&vm).await.unwrap();
    client.create_snapshot(&vm, "golden", "for linked clones").await.unwrap();
    client.mark_as_template(&vm).await.unwrap();
    client.destroy(&vm).await.unwrap();
    insta::assert_snapshot!(named("vms", wire), lines(&fake));
}

async fn folders_pools_and_searches(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match seen.call() {
        "CreateFolder" => moref("Folder", "group-v4"),
        "CreateResourcePool" => moref("ResourcePool", "resgroup-9"),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    let (folder, pool) = (MoRef::folder("group-v3"), MoRef::pool("resgroup-8"));
    client.create_folder(&folder, "a/b").await.unwrap();
    let cpu = Allocation { reservation: Some(2000), expandable: Some(false), limit: Some(8000) };
    client.create_resource_pool(&pool, "test", cpu, Allocation::default()).await.unwrap();
    client.update_resource_pool(&pool, Allocation::default(), cpu).await.unwrap();
    assert_eq!(client.find_by_uuid(Uuid::from_u128(1), true).await.unwrap(), None);
    assert_eq!(client.find_child(&folder, "a/b").await.unwrap(), None);
    let objects = [MoRef::vm("vm-1"), pool, MoRef::vm("vm-2")];
    client.retrieve(&objects, &["name"]).await.unwrap();
    client
        .retrieve_members(&MoRef::datacenter("datacenter-2"), "datastore", "Datastore", &["name"])
        .await
        .unwrap();
    insta::assert_snapshot!(named("folders_pools_and_searches", wire), lines(&fake));
}

async fn a_folder_that_goes_while_folders_are_read_has_no_children(wire: WireKind) {
    let object = |kind: &str, id: &str, property: &str, val: serde_json::Value| {
        let page = serde_json::json!({ "_typeName": "RetrieveResult", "objects": [{
            "_typeName": "ObjectContent",
            "obj": { "_typeName": "ManagedObjectReference", "type": kind, "value": id },
            "propSet": [{ "_typeName": "DynamicProperty", "name": property, "val": val }],
        }]});
        super::fake::json(200, page)
    };
    let root_exists = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let exists = root_exists.clone();
    let fake = Fake::start(wire, move |seen| {
        let asked = |id: &str| seen.call() == "RetrievePropertiesEx" && seen.raw.contains(id);
        if asked("datacenter-2") {
            let folder = serde_json::json!({ "_typeName": "ManagedObjectReference", "type": "Folder", "value": "group-v3" });
            object("Datacenter", "datacenter-2", "vmFolder", folder)
        } else if asked("group-v3") && exists.load(std::sync::atomic::Ordering::SeqCst) {
            object("Folder", "group-v4", "name", serde_json::json!({ "_typeName": "string", "_value": "dev" }))
        } else if asked("group-v") {
            super::fake::fault("ManagedObjectNotFound")
        } else {
            None
        }
    })
    .await;
    let client = fake.client().await;
    let datacenter = MoRef::datacenter("datacenter-2");
    let folders = client.list_vm_folders(&datacenter).await.unwrap();
    assert_eq!(folders.iter().map(|folder| folder.path.as_str()).collect::<Vec<_>>(), ["", "dev"]);
    root_exists.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(client.list_vm_folders(&datacenter).await.unwrap_err().is_not_found());
}

async fn what_is_read_in_pages_is_read_to_the_end(wire: WireKind) {
    let page = |id: &str, token: Option<&str>| {
        let mut page = serde_json::json!({ "_typeName": "RetrieveResult", "objects": [{
            "_typeName": "ObjectContent",
            "obj": { "_typeName": "ManagedObjectReference", "type": "VirtualMachine", "value": id },
            "propSet": [{ "_typeName": "DynamicProperty", "name": "name", "val": { "_typeName": "string", "_value": id } }],
        }]});
        if let Some(token) = token {
            page["token"] = token.into();
        }
        super::fake::json(200, page)
    };
    let fake = Fake::start(wire, move |seen| match seen.call() {
        "RetrievePropertiesEx" => page("vm-1", Some("more")),
        "ContinueRetrievePropertiesEx" => page("vm-2", None),
        _ => None,
    })
    .await;
    let found =
        fake.client().await.retrieve(&[MoRef::vm("vm-1"), MoRef::vm("vm-2")], &["name"]).await.unwrap();
    let names: Vec<&str> = found.iter().filter_map(|object| object.get("name").as_str()).collect();
    assert_eq!(names, ["vm-1", "vm-2"]);
}

on_both_wires!(
    vms,
    folders_pools_and_searches,
    a_folder_that_goes_while_folders_are_read_has_no_children,
    what_is_read_in_pages_is_read_to_the_end,
);
