//! Tests the VM life cycle, from a library item to deletion.

use std::time::Duration;

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use uuid::Uuid;
use vsphere::automation::Deploy;
use vsphere::inventory::{InventoryChange, Location, PowerState, Presence};
use vsphere::{
    Allocation, Backing, Client, CloneSpec, ConfigSpec, DeviceChange, DiskChange, DiskMoveType,
    DiskProvisioning, Inventory, ManagedBy, MoRef, NicBacking, RelocateSpec,
};

/// A template with a snapshot for linked clones.
pub struct Golden {
    pub template: MoRef,
    pub snapshot: MoRef,
    nics: Vec<vsphere::VirtualNic>,
    workload: Backing,
}

pub async fn golden(sim: &Sim, inventory: &Inventory) -> Golden {
    let client = inventory.client();
    let items = client.list_library_items(sim.library()).await.unwrap();
    let networks = client.networks(&sim.datacenter()).await.unwrap();
    let standard = networks.iter().find(|network| network.name == "VM Network").unwrap();
    let workload = networks.iter().find(|network| network.name == "workload").unwrap();
    assert!(matches!(workload.backing, Backing::Portgroup { .. }), "{workload:?}");
    let datastores = client.list_datastores(&sim.datacenter()).await.unwrap();
    let datastore = datastores.iter().find(|datastore| datastore.name == "ds1").unwrap();
    let deploy = Deploy {
        datastore: Some(datastore.moref.clone()),
        networks: vec![("nic0".into(), standard.moref.clone())],
        ..plain_deploy(sim, &items[0])
    };
    let turn = client.deployments().enter("").await;
    let template = client.deploy_ovf(&turn, &deploy, Duration::from_mins(1)).await.unwrap();
    let task = client.create_snapshot(&template, "base", "for linked clones").await.unwrap();
    let snapshot =
        within("the snapshot", inventory.wait_for_task(&task)).await.unwrap().moref().unwrap().clone();
    client.mark_as_template(&template).await.unwrap();
    let nics = client.read_nics(&template).await.unwrap();
    Golden { template, snapshot, nics, workload: workload.backing.clone() }
}

/// Deploys the item into the simulator's pool and folder, and leaves all other choices to vCenter.
pub fn plain_deploy(sim: &Sim, item: &str) -> Deploy {
    Deploy {
        item_id: item.to_owned(),
        name: "golden".into(),
        annotation: None,
        pool: sim.pool(),
        folder: sim.folder(),
        host: None,
        datastore: None,
        profile: None,
        provisioning: None,
        networks: Vec::new(),
    }
}

impl Golden {
    pub fn clone_spec(&self, sim: &Sim, uuid: Uuid) -> CloneSpec {
        let nics = self.nics.iter().map(|nic| NicBacking {
            key: nic.key,
            kind: nic.kind,
            backing: self.workload.clone(),
        });
        CloneSpec {
            location: RelocateSpec {
                pool: Some(sim.pool()),
                disk_move_type: Some(DiskMoveType::CreateNewChildDiskBacking),
                nics: nics.collect(),
                ..RelocateSpec::default()
            },
            config: Some(ConfigSpec {
                uuid: Some(uuid.to_string()),
                instance_uuid: Some(uuid.to_string()),
                num_cpus: Some(4),
                memory_mib: Some(8192),
                memory_allocation: Some(Allocation { reservation: Some(1024), ..Allocation::default() }),
                managed_by: Some(ManagedBy {
                    extension_key: "com.vmware.vcenter.wcp".into(),
                    kind: "VirtualMachine".into(),
                }),
                extra_config: vec![
                    ("vmservice.namespacedName".into(), format!("ns/{uuid}")),
                    ("guestinfo.userdata".into(), "H4sI".into()),
                    ("guestinfo.userdata.encoding".into(), "gzip+base64".into()),
                ]
                .into(),
                v_app_config_removed: Some(true),
                ..ConfigSpec::default()
            }),
            power_on: true,
            snapshot: Some(self.snapshot.clone()),
            ..CloneSpec::default()
        }
    }

    pub async fn clone(&self, sim: &Sim, client: &Client, name: &str, uuid: Uuid) -> vsphere::Result<MoRef> {
        client.clone_vm(&self.template, &sim.folder(), name, self.clone_spec(sim, uuid)).await
    }

    /// Clones the template and waits for the task.
    pub async fn make_clone(&self, sim: &Sim, inventory: &Inventory, name: &str, uuid: Uuid) -> MoRef {
        let task = self.clone(sim, inventory.client(), name, uuid).await.unwrap();
        within("the clone", inventory.wait_for_task(&task)).await.unwrap().moref().unwrap().clone()
    }
}

async fn a_library_is_read_to_the_properties_of_its_items(sim: Sim) {
    let client = sim.client().await;
    assert_eq!(client.about().api_version, "8.0.3.0");
    let named = client.find_libraries("layercake").await.unwrap();
    assert_eq!(named.iter().map(|library| library.id.as_str()).collect::<Vec<_>>(), [sim.library()]);
    let items = client.list_library_items(sim.library()).await.unwrap();
    let item = client.read_library_item(&items[0]).await.unwrap();
    assert_eq!((item.name.as_str(), item.kind.as_str()), ("node", "ovf"));
    assert!(item.created.is_some() && !item.content_version.is_empty(), "{item:?}");
    let descriptor = client.download_ovf_descriptor(&item.id).await.unwrap();
    assert!(descriptor.contains("v1.36.3+test.1"));
    let missing = client.read_library_item("00000000-0000-0000-0000-000000000000").await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    client.logout().await;
}

/// Creates twenty running VMs and returns their references and UUIDs.
async fn twenty(sim: &Sim, inventory: &Inventory) -> Vec<(MoRef, Uuid)> {
    let golden = golden(sim, inventory).await;
    sim.forget_requests().await;
    let uuids: Vec<Uuid> = (1..=20).map(|number| Uuid::from_u128(number << 64)).collect();
    let clones = uuids.iter().enumerate().map(|(number, uuid)| {
        let golden = &golden;
        async move {
            let task = golden.clone(sim, inventory.client(), &format!("node-{number}"), *uuid).await?;
            let done = inventory.wait_for_task(&task).await?;
            Ok::<_, vsphere::Error>((done.moref().unwrap().clone(), *uuid))
        }
    });
    let made = stream::iter(clones).buffered(20).try_collect();
    within("twenty clones", made).await.unwrap()
}

async fn twenty_clones_cost_one_call_each_and_a_few_for_all(sim: Sim) {
    let inventory = sim.inventory().await;
    let made = twenty(&sim, &inventory).await;
    for (number, (vm, uuid)) in made.iter().enumerate() {
        let entered = inventory.wait_for_vm(vm, Duration::from_secs(20)).await.unwrap();
        assert_eq!(entered.name, format!("node-{number}"));
        assert_eq!(entered.folder, Some(sim.folder()));
        assert_eq!((entered.instance_uuid, entered.uuid), (Some(*uuid), Some(*uuid)));
        assert_eq!((entered.num_cpus, entered.memory_mib), (4, 8192));
        assert_eq!(entered.extra_config["vmservice.namespacedName"], format!("ns/{uuid}"));
        assert_eq!(inventory.by_uuid(*uuid), Presence::Present(entered.clone()));
        assert_eq!(inventory.by_name(&sim.folder(), &entered.name), Presence::Present(entered));
    }
    let spent = sim.get("/v1/requests").await;
    println!("twenty clones: {spent}");
    assert_eq!(sim.calls("CloneVM_Task").await, 20);
    let others = sim.total().await - 20;
    assert!(others <= 20, "{others} calls beside the clones: {spent}");

    reported_addresses_arrive(&sim, &inventory, &made).await;
    inventory.client().logout().await;
}

async fn reported_addresses_arrive(sim: &Sim, inventory: &Inventory, made: &[(MoRef, Uuid)]) {
    let mut changes = inventory.subscribe();
    for (number, (vm, _)) in made.iter().enumerate() {
        let ip = format!("10.1.0.{number}");
        sim.guest(vm, json!({ "ip": ip, "hostName": format!("node-{number}"), "toolsRunning": true })).await;
    }
    let mut waiting: Vec<MoRef> = made.iter().map(|(vm, _)| vm.clone()).collect();
    while !waiting.is_empty() {
        let news = within("an address", changes.next()).await.unwrap();
        for change in news {
            if let InventoryChange::Vm { moref, now: Some(now), .. } = change
                && now.guest.ip.as_deref().is_some_and(|ip| ip.starts_with("10.1.0."))
                && now.power_state == Some(PowerState::On)
            {
                waiting.retain(|other| *other != moref);
            }
        }
    }
}

async fn twenty_ends_cost_two_calls_each_and_a_few_for_all(sim: Sim) {
    let inventory = sim.inventory().await;
    let made = twenty(&sim, &inventory).await;
    let client = inventory.client();
    sim.forget_requests().await;
    let gone = made.iter().map(|(vm, _)| async {
        let off = client.power_off(vm).await?;
        inventory.wait_for_task(&off).await?;
        let task = client.destroy(vm).await?;
        inventory.wait_for_task(&task).await
    });
    within("twenty ends", try_join_all(gone)).await.unwrap();
    let mut changes = inventory.subscribe();
    for (vm, _) in &made {
        while inventory.vm(vm) != Presence::Absent {
            within("a leave", changes.next()).await.unwrap();
        }
    }
    let spent = sim.get("/v1/requests").await;
    println!("twenty ends: {spent}");
    assert!(sim.total().await <= 70, "{spent}");
    assert_eq!(inventory.locate(made[0].1, None).await.unwrap(), Location::Gone);
    client.logout().await;
}

async fn what_a_clone_asks_for_is_applied(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let uuid = Uuid::from_u128(7 << 64);
    let vm = golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    let vm = inventory.wait_for_vm(&vm, Duration::from_secs(20)).await.unwrap();
    assert_eq!(vm.power_state, Some(PowerState::On));
    assert_eq!(vm.memory_allocation.reservation, Some(1024));
    assert_eq!(vm.managed_by.as_ref().map(|by| by.extension_key.as_str()), Some("com.vmware.vcenter.wcp"));
    assert_eq!(userdata(&inventory, &vm.moref).await.as_deref(), Some("H4sI"));
    let nics = inventory.client().read_nics(&vm.moref).await.unwrap();
    assert!(matches!(nics[0].backing, Some(Backing::Portgroup { .. })), "{nics:?}");

    // The guest overwrites its user data after reading it. Later, the key is removed.
    let reconfigure = |value: &str| ConfigSpec {
        extra_config: vec![("guestinfo.userdata".into(), value.into())].into(),
        ..ConfigSpec::default()
    };
    for (value, left) in [("---", Some("---")), ("", None)] {
        let task = inventory.client().reconfigure_vm(&vm.moref, reconfigure(value)).await.unwrap();
        within("the change", inventory.wait_for_task(&task)).await.unwrap();
        assert_eq!(userdata(&inventory, &vm.moref).await.as_deref(), left);
    }
}

/// Reads the guest's user data from vCenter, because the inventory doesn't cache it.
async fn userdata(inventory: &Inventory, vm: &MoRef) -> Option<String> {
    let read = inventory.client().retrieve(std::slice::from_ref(vm), &["config.extraConfig"]).await.unwrap();
    let options = read[0].get("config.extraConfig").items();
    let option = options.iter().find(|option| option.get("key").as_str() == Some("guestinfo.userdata"))?;
    option.get("value").as_str().map(str::to_owned)
}

async fn folders_and_pools_are_made_once(sim: Sim) {
    let inventory = sim.inventory().await;
    let client = inventory.client();
    let folder = client.create_folder(&sim.folder(), "test-cluster").await.unwrap();
    assert_eq!(client.find_child(&sim.folder(), "test-cluster").await.unwrap(), Some(folder.clone()));
    let doubled = client.create_folder(&sim.folder(), "test-cluster").await.unwrap_err();
    assert_eq!(doubled.category(), "DuplicateName");
    let memory = Allocation { reservation: Some(4096), expandable: Some(true), limit: Some(65536) };
    let pool = client
        .create_resource_pool(&sim.pool(), "test-cluster", Allocation::default(), memory)
        .await
        .unwrap();
    let read = client.retrieve(std::slice::from_ref(&pool), &["config.memoryAllocation"]).await.unwrap();
    assert_eq!(read[0].get("config.memoryAllocation").get("limit").as_i64(), Some(65536));
    client.update_resource_pool(&pool, Allocation::default(), Allocation::default()).await.unwrap();
    for object in [folder, pool.clone()] {
        let task = client.destroy(&object).await.unwrap();
        within("the end", inventory.wait_for_task(&task)).await.unwrap();
    }
    let gone =
        client.update_resource_pool(&pool, Allocation::default(), Allocation::default()).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone:?}");
}

async fn disks_are_read_added_grown_and_taken_away(sim: Sim) {
    let inventory = sim.inventory().await;
    let client = inventory.client().clone();
    let golden = golden(&sim, &inventory).await;
    let vm = golden.make_clone(&sim, &inventory, "disks", Uuid::new_v4()).await;
    let base = client.devices(&golden.template).await.unwrap();
    let devices = client.devices(&vm).await.unwrap();
    assert_eq!(devices.disks[0].parents, [base.disks[0].file.clone().unwrap()]);
    assert!(base.disks[0].parents.is_empty() && !devices.change_version.is_empty());

    let (controller, unit) = devices.free_place(&[]).unwrap();
    let create = DiskChange::Create {
        key: -1,
        controller,
        unit,
        capacity: 1 << 30,
        provisioning: DiskProvisioning::Thin,
        datastore: None,
        profiles: Vec::new(),
    };
    let change = async |change| {
        let device_change = vec![DeviceChange::Disk(change)];
        let spec = ConfigSpec { device_change, ..ConfigSpec::default() };
        let task = client.reconfigure_vm(&vm, spec).await.unwrap();
        within("the change", inventory.wait_for_task(&task)).await.unwrap();
        client.devices(&vm).await.unwrap().disks
    };
    let disks = change(create).await;
    assert_eq!((disks.len(), disks[1].capacity, disks[1].unit), (2, 1 << 30, Some(unit)));
    assert!(disks[1].uuid.is_some() && disks[1].file.is_some(), "{disks:?}");
    let disks = change(DiskChange::Grow(disks[1].clone(), 2 << 30)).await;
    assert_eq!(disks[1].capacity, 2 << 30);
    let disks = change(DiskChange::Detach(disks[1].clone())).await;
    assert_eq!(disks.len(), 1);
    client.logout().await;
}

async fn policies_are_listed_with_their_datastores(sim: Sim) {
    let client = sim.client().await;
    let policies = client.list_storage_policies().await.unwrap();
    let gold = policies.iter().find(|policy| policy.name == "Gold").unwrap();
    assert!(policies.iter().any(|policy| policy.encrypts) && !gold.encrypts, "{policies:?}");
    let datastores = client.list_datastores(&sim.datacenter()).await.unwrap();
    let ds1 = datastores.iter().find(|datastore| datastore.name == "ds1").unwrap();
    assert!(ds1.normal && ds1.accessible && ds1.free > 0, "{ds1:?}");
    let fitting = client.list_compatible_datastores(&gold.id).await.unwrap();
    assert_eq!(fitting.into_iter().collect::<Vec<_>>(), std::slice::from_ref(&ds1.moref));
    let unknown = client.list_compatible_datastores("00000000-0000-0000-0000-000000000000").await;
    assert!(unknown.is_err(), "{unknown:?}");
    client.logout().await;
}

on_both_wires!(
    a_library_is_read_to_the_properties_of_its_items,
    twenty_clones_cost_one_call_each_and_a_few_for_all,
    what_a_clone_asks_for_is_applied,
    folders_and_pools_are_made_once,
    disks_are_read_added_grown_and_taken_away,
    policies_are_listed_with_their_datastores,
    twenty_ends_cost_two_calls_each_and_a_few_for_all,
);
