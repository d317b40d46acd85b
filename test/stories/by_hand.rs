//! A machine made by hand, as docs/virtual-machines.md tells it; beside what the page shows, what vCenter has.

use serde_json::{Value, json};
use sim::control::{FirstClassDisk, InventoryVm};

use crate::node_image::decoded;
use crate::page::Page;
use crate::world::{SOON, Story, story};

#[test]
fn a_machine_is_made_by_hand_as_the_page_says() {
    story("machines", |story| async move {
        let mut page = Page::open("virtual-machines.md", story.world);
        page.told("A place for machines").await;

        page.told("The machine").await;
        let machine = machine(&story).await;
        let disk = disk(&story).await;
        assert_eq!((machine.num_cpus, machine.memory_mb), (1, 1024));
        assert_eq!((disk.vm.as_str(), disk.capacity_mib), (machine.moid.as_str(), 2048));
        told_its_address(&story, &machine).await;
        page.told("A service").await;

        let before = calls(&story).await.len();
        page.told("Shut down and resize").await;
        let mut own = calls(&story).await.split_off(before);
        own.dedup();
        assert_eq!(own, ["ShutdownGuest", "ReconfigVM_Task", "PowerOnVM_Task"]);
        let resized = self::machine(&story).await;
        assert_eq!((resized.num_cpus, resized.memory_mb, resized.memory_reservation), (4, 4096, Some(4096)));
        assert_eq!(resized.moid, machine.moid);
        assert_eq!(self::disk(&story).await, disk);

        page.told("Publish it").await;
        page.told("Take it down").await;
        assert!(story.vms_named("web").await.is_empty());
        story
            .until("the claim's disk goes with its namespace", SOON, || async {
                let disks = story.world.control().disks().await.unwrap();
                (!disks.iter().any(|there| there.id == disk.id)).then_some(())
            })
            .await;
        page.told("On a real vCenter").await;
        page.close();
    });
}

/// The calls so far that change something of the machine.
async fn calls(story: &Story) -> Vec<String> {
    let calls = story.world.control().journal().await.unwrap().into_iter();
    calls.filter(|call| call.object == "web").map(|call| call.method).collect()
}

async fn machine(story: &Story) -> InventoryVm {
    let mut machines = story.vms_named("web").await;
    assert_eq!(machines.len(), 1);
    machines.remove(0)
}

/// The disk of the machine's claim: there, whatever becomes of the machine.
async fn disk(story: &Story) -> FirstClassDisk {
    let claim = story.get("PersistentVolumeClaim", "web-data").await.unwrap();
    let disks = story.world.control().disks().await.unwrap();
    disks.into_iter().find(|disk| claim["spec"]["volumeName"] == disk.name.as_str()).unwrap()
}

/// What the guest is told is what the Secret says.
async fn told_its_address(story: &Story, machine: &InventoryVm) {
    let keys = story.world.control().guestinfo(&machine.moid).await.unwrap();
    let metadata: Value = serde_saphyr::from_slice(&decoded(&keys, "guestinfo.metadata")).unwrap();
    assert_eq!(metadata["network"]["ethernets"]["eth0"]["addresses"], json!(["10.251.0.20/24"]));
    assert_eq!(metadata["local-hostname"], "web");
}
