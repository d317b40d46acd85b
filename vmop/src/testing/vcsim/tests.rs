//! Tests of the vCenter operations on a simulated vCenter, without Kubernetes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::vmop::VirtualMachine;
use futures::StreamExt;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::{poll, within};
use vsphere::Vm;
use vsphere::inventory::Presence;

use super::{
    clone_vm, forget_base, names, planned_clone, reconfigure, seen, template, template_key, template_key_of,
    vcenter, wanted_of,
};
use crate::enqueue::Enqueue;
use crate::image::SyncRequests;
use crate::templates::{self, TemplateCache, TemplateKey, TemplateState};
use crate::testing::fixtures;
use crate::vcenter::{VCenter, mark};
use crate::virtualmachine::carry_out::destroy::destroy;
use crate::virtualmachine::carry_out::promotion::{begin_promotion, running_promotion};
use crate::virtualmachine::carry_out::steps::take_step;
use crate::virtualmachine::error::{Blocked, Error};
use crate::virtualmachine::identity::find::{Found, find_holder};
use crate::virtualmachine::identity::uuids::Identity;
use crate::virtualmachine::storage::class::Storage;
use crate::virtualmachine::storage::disks;
use crate::virtualmachine::storage::promotion::{PromotionState, observe_promotion};
use crate::virtualmachine::storage::promotions::Promotions;
use crate::virtualmachine::storage::record::DiskRecord;

/// Returns the disks that don't belong to the VM, according to the inventory.
fn foreign(vsphere_vm: &Vm) -> Vec<vsphere::VirtualDisk> {
    DiskRecord::default().foreign(vsphere_vm, vsphere_vm.devices.as_ref().unwrap())
}

/// Destroys the templates on which disks don't depend, as if their content weren't needed, and returns their names.
async fn collect(vcenter: &VCenter) -> Vec<String> {
    templates::collect(&super::templates().0, vcenter, |_, _| false).await.unwrap()
}

async fn a_template_is_made_once_whoever_asks(sim: Sim) {
    let (one, two) = (vcenter(&sim).await, vcenter(&sim).await);
    let template_key = template_key(&sim, &one).await;
    let (first, second) = tokio::join!(template(&one, &template_key), template(&two, &template_key));
    assert_eq!(first.moref, second.moref);
    let inventory = sim.get("/v1/inventory").await;
    assert_eq!(inventory["vms"].as_array().unwrap().len(), 1, "{inventory}");

    sim.forget_requests().await;
    let late = vcenter(&sim).await;
    assert_eq!(template(&late, &template_key).await.snapshot, first.snapshot);
    let requests = sim.get("/v1/requests").await;
    assert!(!requests.to_string().contains("deploy"), "{requests}");
    assert_eq!(sim.calls("CreateSnapshot_Task").await, 0);
}

async fn deployment_of_a_template_that_no_vm_needs_is_not_retried(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let key = TemplateKey { item: "no-such-item".into(), ..template_key(&sim, &vcenter).await };
    let failed = Arc::<AtomicBool>::default();
    let changed = Arc::clone(&failed);
    let on_change = Arc::new(move |_: &str| changed.store(true, Ordering::SeqCst));
    let (cache, requests) = TemplateCache::new(on_change, Arc::new(|_: &str, _: &str| false));
    cache.request(&vcenter, &key, "ns");
    let forgotten = async || {
        let state = cache.get(&vcenter, &key);
        (failed.load(Ordering::SeqCst) && state == TemplateState::Deploying).then_some(())
    };
    tokio::select! {
        ended = poll("it is forgotten", Duration::from_secs(20), forgotten) => ended.unwrap(),
        () = templates::deploy_requested(Arc::clone(&cache), requests, Arc::default()) => panic!("the loop ended"),
    }
}

async fn an_item_that_is_not_what_its_image_shows_has_the_libraries_read(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let key = template_key(&sim, &vcenter).await;
    let gone = TemplateKey { item: "no-such-item".into(), ..key.clone() };
    let replaced = TemplateKey { content: "earlier".into(), ..key };
    for (key, words) in
        [(gone, "is no longer in its content library"), (replaced, "has changed in its content library")]
    {
        let (cache, requests) = super::templates();
        let library_syncs = Arc::<SyncRequests>::default();
        cache.request(&vcenter, &key, "ns");
        let requested = async {
            library_syncs.requested().await;
            poll("it failed", Duration::from_secs(20), async || match cache.get(&vcenter, &key) {
                TemplateState::Failed(problem) => Some(problem.to_string()),
                _ => None,
            })
            .await
            .unwrap()
        };
        let problem = tokio::select! {
            problem = requested => problem,
            () = templates::deploy_requested(Arc::clone(&cache), requests, Arc::clone(&library_syncs)) => panic!("the loop ended"),
        };
        assert!(problem.contains(words), "{problem}");
    }
}

async fn a_half_made_template_is_finished(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let template_key = template_key(&sim, &vcenter).await;
    let deploy = vsphere::automation::Deploy {
        item_id: template_key.item.clone(),
        name: template_key.template_name("s1"),
        annotation: None,
        pool: sim.pool(),
        folder: sim.folder(),
        host: None,
        datastore: template_key.datastore.clone(),
        profile: None,
        provisioning: None,
        networks: Vec::new(),
    };
    let turn = vcenter.client.deployments().enter("ns").await;
    let half = vcenter.client.deploy_ovf(&turn, &deploy, Duration::from_mins(1)).await.unwrap();
    assert_eq!(template(&vcenter, &template_key).await.moref, half);
    let Presence::Present(vm) = vcenter.inventory.vm(&half) else { panic!("no template") };
    let marked = mark::template_mark(&vm, &template_key.item, &template_key.content);
    assert_eq!(marked, mark::TemplateMark::Marked);
}

#[tokio::test]
async fn a_subscribed_image_is_fetched_before_its_template_is_made() {
    let Some(sim) = Sim::with_subscription("a_subscribed_image_is_fetched_before_its_template_is_made")
    else {
        return;
    };
    let vcenter = vcenter(&sim).await;
    let template_key = template_key_of(sim.library_named("subscribed"), &sim, &vcenter).await;
    let cached = async || vcenter.client.read_library_item(&template_key.item).await.unwrap().cached;
    assert!(!cached().await);
    // The descriptor is available whether the disks are downloaded or not.
    let descriptor = vcenter.client.download_ovf_descriptor(&template_key.item).await.unwrap();
    assert!(descriptor.contains("Envelope"));
    template(&vcenter, &template_key).await;
    assert!(cached().await);
}

async fn one_call_makes_a_vm_and_a_second_finds_it(sim: Sim) {
    let (vcenter, _, facts, intent) = planned_clone(&sim).await;
    sim.forget_requests().await;
    let vsphere_vm = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    assert_eq!(sim.calls("CloneVM_Task").await, 1);
    assert!(facts.mark.is_on(&vsphere_vm) && facts.identity.is_of(&vsphere_vm));
    assert_eq!((vsphere_vm.num_cpus, vsphere_vm.memory_mib), (2, 4096));
    let guestinfo = sim.get(&format!("/v1/vms/{}/guestinfo", vsphere_vm.moref.id())).await;
    assert_eq!(guestinfo["guestinfo.metadata"], "bWV0YQ==");
    assert_eq!(vsphere_vm.cpu_allocation.reservation, Some(4588));

    // As after a lost response, or if another leader was faster.
    let again = within("the second clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    assert_eq!(again.moref, vsphere_vm.moref);
    assert_eq!(names(&sim).await, ["cp-0"]);

    // Another VirtualMachine's VM with the same name is neither adopted nor changed.
    let mut other = fixtures::facts(Found::Absent);
    other.mark = mark::Mark::new("other", "cp-0", "s1");
    let refused = clone_vm(&intent, &other, &vcenter).await;
    assert!(matches!(refused, Err(Error::Blocked(Blocked::Claimed(_)))), "{refused:?}");

    within("its end", destroy(&vsphere_vm, &DiskRecord::default(), &vcenter)).await.unwrap();
    assert!(names(&sim).await.is_empty());
}

async fn nobodys_owner_references_spare_the_check_of_the_bios_uuid(sim: Sim) {
    let (vcenter, _, facts, intent) = planned_clone(&sim).await;
    within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();

    let mut forged = fixtures::virtual_machine();
    forged.metadata.owner_references = serde_json::from_value(json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "u-1", "controller": true,
    }]))
    .unwrap();
    let identity = Identity { instance: uuid::Uuid::from_u128(9), ..facts.identity };
    let mark = mark::Mark::new("other", "cp-0", "s1");
    sim.forget_requests().await;
    let found = find_holder(&forged, identity, &mark, &vcenter).await;
    let Some(Found::Claimed(claim)) = found else { panic!("{found:?}") };
    let message = claim.to_string();
    assert!(message.contains(&identity.bios.to_string()) && message.contains("another VM"), "{message}");
    assert!(
        !message.contains("vm-") && !message.contains("ns/"),
        "it names another namespace's VM: {message}"
    );
    let fresh = Identity { bios: uuid::Uuid::from_u128(9), ..identity };
    assert!(find_holder(&forged, fresh, &mark, &vcenter).await.is_none());
    assert_eq!(sim.calls("FindByUuid").await, 0, "the inventory has every namespace's VMs");
    let by_hand = fixtures::virtual_machine();
    assert!(find_holder(&by_hand, fresh, &mark, &vcenter).await.is_none());
    assert_eq!(sim.calls("FindByUuid").await, 1);
}

async fn a_clone_whose_answer_was_lost_is_found_again(sim: Sim) {
    let (vcenter, _, facts, intent) = planned_clone(&sim).await;
    sim.post("/v1/faults", json!({"method": "CloneVM_Task", "kind": "lostAnswer"})).await;
    let lost = within("the clone", clone_vm(&intent, &facts, &vcenter)).await;
    assert!(matches!(&lost, Err(Error::Vcenter(error)) if error.outcome_unknown()), "{lost:?}");
    let found = within("the second clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    assert!(facts.mark.is_on(&found));
    assert_eq!(names(&sim).await, ["cp-0"]);
}

async fn names_are_looked_up_once(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    sim.forget_requests().await;
    for _ in 0..3 {
        assert!(vcenter.megahertz(&sim.pool()).await.unwrap() > 0);
        assert!(vcenter.datastore().await.unwrap().is_some());
        assert_eq!(vcenter.network("workload").await.unwrap().name, "workload");
    }
    let calls = sim.calls("RetrievePropertiesEx").await;
    assert!(calls <= 6, "{calls} reads");
    assert!(vcenter.network("nowhere").await.unwrap_err().is_not_found());
}

async fn volumes_are_in_the_clone_and_come_later_and_only_ours_are_destroyed(sim: Sim) {
    let (vcenter, template, facts, _) = planned_clone(&sim).await;
    let (mut object, storage) = (fixtures::with_volumes(&[("data", "1Gi")]), Storage::default());
    let intent = wanted_of(&object, &sim, &vcenter, &template, &facts).await;
    sim.forget_requests().await;
    let vsphere_vm = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    assert_eq!((sim.calls("CloneVM_Task").await, sim.calls("ReconfigVM_Task").await), (1, 0));
    assert!(foreign(&vsphere_vm).is_empty() && !disks::lacks_volumes(&object, &vsphere_vm), "{vsphere_vm:?}");
    let devices = vcenter.devices(&vsphere_vm).await.unwrap();
    let statuses = disks::report_volumes(&object, &vsphere_vm, &devices);
    assert!(statuses[0].attached && !statuses[0].disk_uuid.is_empty(), "{statuses:?}");
    assert_eq!(devices.disks[0].parents.len(), 1, "a linked clone");

    object.spec.volumes.push(fixtures::volume("logs", "2Gi", None));
    object.spec.volumes[0] = fixtures::volume("data", "3Gi", None);
    assert!(disks::lacks_volumes(&object, &vsphere_vm));
    let change = disks::plan_disk_changes(&object, &vsphere_vm, &devices, &storage).unwrap().unwrap();
    reconfigure(&vsphere_vm.moref, change, &vcenter).await;
    let grown = |now: &Vm| now.change_version != vsphere_vm.change_version && now.disks == Some(3);
    let vsphere_vm = seen(&vsphere_vm.moref, &vcenter, grown).await;
    let devices = vcenter.devices(&vsphere_vm).await.unwrap();
    assert_eq!(disks::plan_disk_changes(&object, &vsphere_vm, &devices, &storage).unwrap(), None);
    assert_eq!(devices.disks.iter().map(|disk| disk.capacity >> 30).skip(1).collect::<Vec<_>>(), [3, 2]);

    // A user attaches another disk, which outlives the VM.
    let (controller, unit) = devices.free_place(&[]).unwrap();
    let create = vsphere::DiskChange::Create {
        key: -1,
        controller,
        unit,
        capacity: 1 << 30,
        provisioning: vsphere::DiskProvisioning::Default,
        datastore: None,
        profiles: Vec::new(),
    };
    let device_change = vec![vsphere::DeviceChange::Disk(create)];
    let spec = vsphere::ConfigSpec { device_change, ..vsphere::ConfigSpec::default() };
    reconfigure(&vsphere_vm.moref, spec, &vcenter).await;
    let devices = vcenter.client.devices(&vsphere_vm.moref).await.unwrap();
    let foreign = DiskRecord::default().foreign(&vsphere_vm, &devices);
    assert_eq!(foreign.len(), 1, "{foreign:?}");
    let vsphere_vm = seen(&vsphere_vm.moref, &vcenter, |now| now.disks == Some(4)).await;
    sim.forget_requests().await;
    within("its end", destroy(&vsphere_vm, &DiskRecord::default(), &vcenter)).await.unwrap();
    assert_eq!(sim.calls("ReconfigVM_Task").await, 1);
}

async fn a_disk_that_was_hung_on_a_vm_just_now_is_spared(sim: Sim) {
    let (vcenter, _, facts, mut intent) = planned_clone(&sim).await;
    for power_on in [true, false] {
        intent.spec.power_on = power_on;
        let vsphere_vm = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
        assert!(foreign(&vsphere_vm).is_empty(), "{vsphere_vm:?}");
        let order = json!({ "file": "[ds1] theirs/disk.vmdk", "capacityMiB": 64 });
        sim.post(&format!("/v1/vms/{}/disks", vsphere_vm.moref.id()), order).await;
        // `vsphere_vm` doesn't contain that disk.
        within("its end", destroy(&vsphere_vm, &DiskRecord::default(), &vcenter)).await.unwrap();
        assert_eq!(sim.get("/v1/orphans").await["files"], json!(["ds1/theirs"]), "{power_on}");
    }
}

async fn a_template_goes_when_nothing_needs_it_and_no_disk_rests_on_it(sim: Sim) {
    let (vcenter, _, facts, intent) = planned_clone(&sim).await;
    let template_key = template_key(&sim, &vcenter).await;
    let vsphere_vm = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    let is_needed = |item: &str, content: &str| item == template_key.item && content == template_key.content;
    let nothing: [String; 0] = [];

    sim.forget_requests().await;
    assert_eq!(templates::collect(&super::templates().0, &vcenter, is_needed).await.unwrap(), nothing);
    assert_eq!(collect(&vcenter).await, nothing, "its VM says so");
    assert_eq!(sim.calls("RetrievePropertiesEx").await, 0, "neither costs a call");

    // The disks of a VM without the record still depend on the template.
    forget_base(&vsphere_vm.moref, &vcenter).await;
    assert_eq!(collect(&vcenter).await, nothing, "its disks say so");

    within("its end", destroy(&vsphere_vm, &DiskRecord::default(), &vcenter)).await.unwrap();
    assert_eq!(templates::collect(&super::templates().0, &vcenter, is_needed).await.unwrap(), nothing);
    let gone = within("the template's end", collect(&vcenter)).await;
    assert_eq!(gone, [template_key.template_name("s1")]);
    assert_eq!(sim.get("/v1/inventory").await["vms"].as_array().unwrap().len(), 0);
}

async fn linked_disks_are_promoted_once_and_their_template_can_go(sim: Sim) {
    let (vcenter, template, facts, intent) = planned_clone(&sim).await;
    let mut vm = fixtures::virtual_machine();
    let (waker, woken) = Enqueue::new();
    let mut woken = pin!(woken);
    let promotions = Promotions::new(waker);
    sim.forget_requests().await;
    let vsphere_vm = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    assert_eq!(observe_promotion(&vm, &vsphere_vm, &vcenter, &promotions).await, None, "nobody asks for it");
    assert_eq!(sim.calls("RetrievePropertiesEx").await, 0, "and that costs nothing");

    vm.spec.promote_disks_mode = Some("Online".into());
    let state = async |vm: &VirtualMachine, vsphere_vm: &Vm| {
        observe_promotion(vm, vsphere_vm, &vcenter, &promotions).await.unwrap().state
    };
    let PromotionState::Due(disks) = state(&vm, &vsphere_vm).await else { panic!("a linked clone") };
    assert_eq!(disks.len(), 1);

    // A failure in vCenter is reported, and retried only after the VirtualMachine changes.
    let fault = json!({"method": "PromoteDisks_Task", "kind": "taskFault", "fault": "FileFault", "message": "no space", "count": 1});
    sim.post("/v1/faults", fault).await;
    begin_promotion(&promotions, &vm, &vsphere_vm.moref, &disks, &vcenter);
    within("the end", woken.next()).await;
    let PromotionState::Failed(why) = state(&vm, &vsphere_vm).await else { panic!("it failed") };
    assert!(why.contains("FileFault"), "{why}");
    vm.metadata.generation = vm.metadata.generation.map(|generation| generation + 1);
    assert_eq!(state(&vm, &vsphere_vm).await, PromotionState::Due(disks.clone()));

    // Begin twice, as after a crash: the second finds the first's task and waits for it.
    let late = super::vcenter(&sim).await;
    sim.post("/v1/faults", json!({"method": "PromoteDisks_Task", "kind": "hold", "count": 1})).await;
    sim.forget_requests().await;
    begin_promotion(&promotions, &vm, &vsphere_vm.moref, &disks, &vcenter);
    assert_eq!(state(&vm, &vsphere_vm).await, PromotionState::Running);
    let follows = async || {
        while sim.calls("ModifyListView").await == 0 {
            tokio::task::yield_now().await;
        }
    };
    within("the first follows its task", follows()).await;
    assert!(running_promotion(&vsphere_vm.moref, &vcenter).await.unwrap().is_some());
    sim.forget_requests().await;
    let (waker, woken_late) = Enqueue::new();
    let mut woken_late = pin!(woken_late);
    begin_promotion(&Promotions::new(waker), &vm, &vsphere_vm.moref, &disks, &late);
    within("the second follows the task", follows()).await;
    sim.release().await;
    within("the end", async { tokio::join!(woken.next(), woken_late.next()) }).await;
    assert_eq!(sim.calls("PromoteDisks_Task").await, 0);
    assert_eq!(state(&vm, &vsphere_vm).await, PromotionState::Finished, "its disks are its own");

    // After another crash, the disks show that the promotion is complete.
    promotions.forget(&ObjectRef::from_obj(&vm));
    assert_eq!(state(&vm, &vsphere_vm).await, PromotionState::Finished);
    let promotion = observe_promotion(&vm, &vsphere_vm, &vcenter, &promotions).await;
    let step = promotion.unwrap().remove_note().unwrap();
    within("the note", take_step(&vsphere_vm.moref, &step, &vcenter)).await.unwrap();
    let vsphere_vm = seen(&vsphere_vm.moref, &vcenter, |now| mark::base(now).is_none()).await;
    sim.forget_requests().await;
    assert_eq!(state(&vm, &vsphere_vm).await, PromotionState::Done);
    assert_eq!(sim.calls("RetrievePropertiesEx").await, 0, "it is never read again");
    let gone = within("the template's end", collect(&vcenter)).await;
    assert_eq!(gone, std::slice::from_ref(&template.name));
    within("its end", destroy(&vsphere_vm, &DiskRecord::default(), &vcenter)).await.unwrap();
}

on_both_wires!(
    deployment_of_a_template_that_no_vm_needs_is_not_retried,
    an_item_that_is_not_what_its_image_shows_has_the_libraries_read,
    linked_disks_are_promoted_once_and_their_template_can_go,
    a_template_is_made_once_whoever_asks,
    a_half_made_template_is_finished,
    one_call_makes_a_vm_and_a_second_finds_it,
    nobodys_owner_references_spare_the_check_of_the_bios_uuid,
    a_clone_whose_answer_was_lost_is_found_again,
    names_are_looked_up_once,
    volumes_are_in_the_clone_and_come_later_and_only_ours_are_destroyed,
    a_disk_that_was_hung_on_a_vm_just_now_is_spared,
    a_template_goes_when_nothing_needs_it_and_no_disk_rests_on_it,
);
