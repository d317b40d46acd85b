//! A user runs the commands in docs/virtual-machines.md, and vCenter contains the VM that the page describes.

use serde_json::{Value, json};
use sim::control::{FirstClassDisk, InventoryVm};

use crate::harness::documented_commands::Page;
use crate::harness::story::{SOON, Story, story};
use crate::nodes::boot_data::decode;

#[test]
fn a_machine_is_made_by_hand_as_the_page_says() {
    story("machines", |story| async move {
        let mut page = Page::open("virtual-machines.md", story.shared);
        page.run_section("Prepare a namespace").await;

        page.run_section("Create the VM").await;
        let vm = web_vm(&story).await;
        let disk = claimed_disk(&story).await;
        assert_eq!((vm.num_cpus, vm.memory_mb), (1, 1024));
        assert_eq!((disk.vm.as_str(), disk.capacity_mib), (vm.moid.as_str(), 2048));
        assert_address_in_metadata(&story, &vm).await;
        page.run_section("Create a service").await;

        let before = list_calls(&story).await.len();
        page.run_section("Shut down and resize").await;
        let mut own = list_calls(&story).await.split_off(before);
        own.dedup();
        assert_eq!(own, ["ShutdownGuest", "ReconfigVM_Task", "PowerOnVM_Task"]);
        let resized = web_vm(&story).await;
        assert_eq!((resized.num_cpus, resized.memory_mb, resized.memory_reservation), (4, 4096, Some(4096)));
        assert_eq!(resized.moid, vm.moid);
        assert_eq!(claimed_disk(&story).await, disk);

        page.run_section("Publish it").await;
        page.run_section("Clean up").await;
        assert!(story.vms_named("web").await.is_empty());
        let gone = async || {
            let disks = story.shared.control().disks().await.unwrap();
            !disks.iter().any(|there| there.id == disk.id)
        };
        story.wait_until("the claim's disk goes with its namespace", SOON, gone).await;
        page.run_section("On a real vCenter").await;
        page.close();
    });
}

/// Returns the mutating calls for the VM so far.
async fn list_calls(story: &Story) -> Vec<String> {
    let calls = story.shared.control().journal().await.unwrap().into_iter();
    calls.filter(|call| call.object == "web").map(|call| call.method).collect()
}

async fn web_vm(story: &Story) -> InventoryVm {
    let mut vms = story.vms_named("web").await;
    assert_eq!(vms.len(), 1);
    vms.remove(0)
}

/// Returns the disk for the VM's claim, which exists independently of the VM.
async fn claimed_disk(story: &Story) -> FirstClassDisk {
    let claim = story.get("PersistentVolumeClaim", "web-data").await.unwrap();
    let disks = story.shared.control().disks().await.unwrap();
    disks.into_iter().find(|disk| claim["spec"]["volumeName"] == disk.name.as_str()).unwrap()
}

/// Checks that the guest's metadata contains the address in the Secret.
async fn assert_address_in_metadata(story: &Story, vm: &InventoryVm) {
    let keys = story.shared.control().guestinfo(&vm.moid).await.unwrap();
    let metadata: Value = serde_saphyr::from_slice(&decode(&keys, "guestinfo.metadata")).unwrap();
    assert_eq!(metadata["network"]["ethernets"]["eth0"]["addresses"], json!(["10.251.0.20/24"]));
    assert_eq!(metadata["local-hostname"], "web");
}
