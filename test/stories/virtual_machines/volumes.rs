//! A user's VMs use claims, which are attached in order before the VM runs, detached before it is destroyed, and
//! never lost. Image disks can become a VM's own.

use kube::api::DeleteParams;
use serde_json::{Value, json};
use sim::control::{FaultKind, FaultRule, FirstClassDisk};

use crate::clusters::plain::zone_object;
use crate::harness::objects::small_claim;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, condition, story};

const CLASS: &str = "volumes";
const LATE_CLASS: &str = "volumes-latebinding";

#[test]
fn claims_are_attached_in_order_and_outlive_their_machine() {
    story("volumes", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        create_storage_class(&story, CLASS, "Immediate").await;
        create_claim(&story, "data", CLASS).await;
        story.apply_object(&with_claims(&story, "bearer", &["data", "logs"])).await;

        // The second claim doesn't exist. The first is attached, and the VM waits powered off.
        let why =
            story.wait_for_complaint("VirtualMachine", "bearer", &["Volume logs", "can't be attached"]).await;
        assert_contains(&why, &["VolumesNotAttached", "persistentvolumeclaims", "not found"]);
        let vm = story.get("VirtualMachine", "bearer").await.unwrap();
        assert_eq!(vm["status"]["powerState"], "poweredOff");
        let (data, vm_id) = (disk_of(&story, "data").await, vm["status"]["uniqueID"].clone());
        assert_eq!(data.vm, vm_id);
        let volumes = &vm["status"]["volumes"];
        assert_eq!(
            volumes[0],
            json!({"name": "data", "attached": true, "diskUUID": data.disk_uuid, "error": ""})
        );
        assert_eq!((&volumes[1]["name"], &volumes[1]["attached"]), (&json!("logs"), &json!(false)));
        assert_contains(&volumes[1]["error"], &["not found"]);

        create_claim(&story, "logs", CLASS).await;
        let vm = story.wait_until_powered_on("bearer").await;
        let logs = disk_of(&story, "logs").await;
        assert_eq!(vm["status"]["volumes"][1]["diskUUID"], logs.disk_uuid.as_str());
        assert_eq!((logs.vm.as_str(), logs.capacity_mib), (data.vm.as_str(), 64));

        // A volume that is removed from the spec is detached while the VM runs.
        let volumes = with_claims(&story, "bearer", &["data"])["spec"]["volumes"].clone();
        story.patch("VirtualMachine", "bearer", json!({"spec": {"volumes": volumes}})).await;
        wait_until_detached(&story, "logs").await;
        assert_eq!(disk_of(&story, "data").await.vm, data.vm);
        assert_eq!(story.wait_until_powered_on("bearer").await["status"]["uniqueID"], vm_id);

        story.delete("VirtualMachine", "bearer", SOON).await;
        assert!(story.vms_named("bearer").await.is_empty());
        assert!(story.list("CnsNodeVmAttachment").await.is_empty());
        for claim in ["data", "logs"] {
            wait_until_detached(&story, claim).await;
            let disk = disk_of(&story, claim).await;
            assert!(disk.exists, "{claim} was destroyed with the VM");
            delete_claim(&story, claim, &disk.id).await;
        }
    });
}

#[test]
fn claims_are_released_of_a_machine_that_is_gone_when_it_is_to_be_powered_off() {
    story("volumes-vanished", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        create_storage_class(&story, CLASS, "Immediate").await;
        create_claim(&story, "kept", CLASS).await;
        story.apply_object(&with_claims(&story, "vanisher", &["kept"])).await;
        story.wait_until_powered_on("vanisher").await;

        let gone = FaultRule::once("PowerOffVM_Task", FaultKind::Fault).on("vanisher");
        let gone = gone.with("ManagedObjectNotFound", "has already been deleted");
        story.shared.control().plant(&gone).await.unwrap();
        story.delete("VirtualMachine", "vanisher", SOON).await;
        assert!(story.list("CnsNodeVmAttachment").await.is_empty());
        wait_until_detached(&story, "kept").await;
        let disk = disk_of(&story, "kept").await;
        assert!(disk.exists, "the claim's disk was destroyed with the VM");
        delete_claim(&story, "kept", &disk.id).await;
    });
}

#[test]
fn a_machine_whose_object_moves_away_and_back_keeps_its_volumes_and_its_nic() {
    story("moved-volumes", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        create_storage_class(&story, CLASS, "Immediate").await;
        create_claim(&story, "kept", CLASS).await;
        let mut object = with_claims(&story, "mover", &["kept"]);
        object["spec"]["networkInterfaces"] =
            json!([{"networkType": "vsphere-distributed", "networkName": "workload-network"}]);
        story.apply_object(&object).await;
        let vm = story.wait_until_powered_on("mover").await;
        let (disk, attachment) = (disk_of(&story, "kept").await, attachment(&story, "mover-kept").await);
        let nic = network_interface(&story).await;
        assert_eq!(vm["status"]["uniqueID"], disk.vm.as_str());

        move_away(&story, &vm).await;
        assert_eq!(self::attachment(&story, "mover-kept").await, attachment);
        assert_eq!(network_interface(&story).await, nic);
        assert_eq!(disk_of(&story, "kept").await, disk);

        // The object comes back without a status and with a new UID.
        let mut back = object;
        back["metadata"]["annotations"] =
            json!({"virtualmachine.vmoperator.vmware.com/first-boot-done": "true"});
        for uuid in ["biosUUID", "instanceUUID"] {
            back["spec"][uuid] = vm["spec"][uuid].clone();
        }
        story.apply_object(&back).await;
        let vm = story.wait_until_powered_on("mover").await;
        assert_eq!(vm["status"]["uniqueID"], disk.vm.as_str());
        assert_eq!(vm["status"]["volumes"][0]["attached"], true, "{}", vm["status"]);
        assert_eq!(self::attachment(&story, "mover-kept").await, attachment);
        assert_eq!(network_interface(&story).await, nic);
        assert_eq!(disk_of(&story, "kept").await, disk);

        story.delete("VirtualMachine", "mover", SOON).await;
        story.wait_until_gone("NetworkInterface", "workload-network-mover", SOON).await;
        wait_until_detached(&story, "kept").await;
        delete_claim(&story, "kept", &disk.id).await;
    });
}

#[test]
fn a_claim_that_waits_for_its_consumer_is_made_in_the_machine_s_zone() {
    story("zoned-volumes", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let mut zone = zone_object(&story, "zone-a");
        zone["spec"]["namespace"] = zone["spec"]["managedVMs"].clone();
        story.apply_object(&zone).await;
        create_storage_class(&story, LATE_CLASS, "WaitForFirstConsumer").await;
        create_claim(&story, "late", LATE_CLASS).await;
        story.apply_object(&with_claims(&story, "zoned", &["late"])).await;
        let vm = story.wait_until_powered_on("zoned").await;
        assert_eq!(vm["status"]["zone"], "zone-a");
        let claim = story.get("PersistentVolumeClaim", "late").await.unwrap();
        let annotations = &claim["metadata"]["annotations"];
        assert_eq!(annotations["volume.kubernetes.io/selected-node"], "zone-a");
        assert_eq!(annotations["cns.vmware.com/selected-node-is-zone"], "true");
        let disk = disk_of(&story, "late").await;
        assert_eq!(vm["status"]["uniqueID"], disk.vm.as_str());
        story.delete("VirtualMachine", "zoned", SOON).await;
        delete_claim(&story, "late", &disk.id).await;
    });
}

#[test]
fn a_machine_that_asks_for_it_rests_on_no_template_and_runs_on() {
    story("promoted", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let mut vm = PlainVm::named("independent").object(&story.namespace);
        vm["spec"]["promoteDisksMode"] = "Online".into();
        story.apply_object(&vm).await;
        let are_promoted = |vm: &Value| {
            let promoted = condition(vm, "VirtualMachineDiskPromotionSynced");
            vm["status"]["powerState"] == "poweredOn" && promoted.is_some_and(|one| one["status"] == "True")
        };
        let vm = ("VirtualMachine", "independent");
        story.wait_for_object("its disks are promoted", SOON, vm, are_promoted).await;
        // Finally, only the VM operator's own note about the template is removed.
        let done = story
            .wait_for("its template is noted no more", SOON, || async {
                let calls = story.shared.control().journal().await.expect("a journal");
                let own = calls.into_iter().filter(|call| call.object == "independent");
                let methods: Vec<_> = own.map(|call| call.method).collect();
                (methods.last()? == "ReconfigVM_Task").then_some(methods)
            })
            .await;
        assert_eq!(done, ["CloneVM_Task", "PromoteDisks_Task", "ReconfigVM_Task"]);
        story.delete("VirtualMachine", "independent", SOON).await;
    });
}

fn with_claims(story: &Story, name: &str, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let mut vm = PlainVm::named(name).object(&story.namespace);
    vm["spec"]["volumes"] = claims.iter().map(volume).collect();
    vm
}

/// Creates a storage class that vSphere CSI serves.
async fn create_storage_class(story: &Story, name: &str, mode: &str) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "csi.vsphere.vmware.com", "volumeBindingMode": mode,
    });
    story.apply_object(&class).await;
}

async fn create_claim(story: &Story, name: &str, class: &str) {
    story.apply_object(&small_claim(&story.namespace, name, class)).await;
}

/// Waits until the claim is bound, and returns its disk.
async fn disk_of(story: &Story, claim: &str) -> FirstClassDisk {
    story
        .wait_for(&format!("claim {claim} is bound to a disk"), SOON, || async {
            let claim = story.get("PersistentVolumeClaim", claim).await?;
            let volume =
                claim["spec"]["volumeName"].as_str().filter(|_| claim["status"]["phase"] == "Bound")?;
            let disks = story.shared.control().disks().await.expect("disks");
            disks.into_iter().find(|disk| disk.name == volume)
        })
        .await
}

async fn wait_until_detached(story: &Story, claim: &str) {
    story
        .wait_until(&format!("claim {claim} is detached"), SOON, async || {
            disk_of(story, claim).await.vm.is_empty()
        })
        .await;
}

/// Deletes a claim and waits until its disk is deleted, as the storage class says.
async fn delete_claim(story: &Story, claim: &str, disk: &str) {
    story.delete("PersistentVolumeClaim", claim, SOON).await;
    story
        .wait_for(&format!("the disk of {claim} is deleted"), SOON, || async {
            let disks = story.shared.control().disks().await.expect("disks");
            (!disks.iter().any(|there| there.id == disk)).then_some(())
        })
        .await;
}

/// Returns the UID, deletion timestamp and status of an attachment.
async fn attachment(story: &Story, name: &str) -> (Value, Value, Value) {
    let there = story.get("CnsNodeVmAttachment", name).await.expect("an attachment");
    let metadata = &there["metadata"];
    (metadata["uid"].clone(), metadata["deletionTimestamp"].clone(), there["status"].clone())
}

/// Returns the UID, deletion timestamp and status of the NIC's object. The status contains its MAC and IP addresses.
async fn network_interface(story: &Story) -> (Value, Value, Value) {
    let there = story.get("NetworkInterface", "workload-network-mover").await.expect("an interface");
    let metadata = &there["metadata"];
    (metadata["uid"].clone(), metadata["deletionTimestamp"].clone(), there["status"].clone())
}

/// Deletes the object as a move does, and waits until garbage collection has removed its dependents.
async fn move_away(story: &Story, vm: &Value) {
    let owner = json!({
        "apiVersion": vm["apiVersion"], "kind": vm["kind"],
        "name": vm["metadata"]["name"], "uid": vm["metadata"]["uid"],
    });
    let collected = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "owned", "namespace": story.namespace, "ownerReferences": [owner]},
    });
    story.apply_object(&collected).await;
    let annotations = json!({
        "cluster.x-k8s.io/paused": "", "clusterctl.cluster.x-k8s.io/delete-for-move": "",
    });
    story.patch("VirtualMachine", "mover", json!({"metadata": {"annotations": annotations}})).await;
    story.patch("VirtualMachine", "mover", json!({"metadata": {"finalizers": null}})).await;
    story.api("VirtualMachine").delete("mover", &DeleteParams::default()).await.unwrap();
    story.wait_until_gone("ConfigMap", "owned", SOON).await;
    assert_eq!(story.vms_named("mover").await.len(), 1);
}
