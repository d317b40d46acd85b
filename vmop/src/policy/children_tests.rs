//! Policy folders and pools on a simulated vCenter: ownership, and crashes at every write.

use api::names::finalizer;
use api::vmop::VirtualMachineSetResourcePolicy;
use kit::Runtime;
use kit::apply::Api;
use kit::events::Events;
use serde_json::json;
use support::api_server::server;
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::{Allocation, MoRef};

use crate::caches::{Caches, ReplicaCaches};
use crate::enqueue::Enqueue;
use crate::policy::children::{ChildSettings, WantedChild, realize_children};
use crate::policy::context::Context;
use crate::policy::delete::delete;
use crate::policy::ledger::{ANNOTATION, ChildKind};
use crate::policy::remove_children::remove_children;
use crate::policy::vcsim_tests::Notes;
use crate::testing::fixtures;
use crate::testing::vcsim::{clone_bare, template, template_key, vcenter, wanted, while_held};
use crate::vcenter::{Provider, VCenter};
use crate::virtualmachine::identity::find::Found;

const NOTHING: Allocation = Allocation { reservation: None, limit: None, expandable: None };

fn children(sim: &Sim, suffix: &str) -> [WantedChild; 2] {
    let child = |parent, form| WantedChild {
        parent,
        name: "payments".into(),
        alternative: format!("payments-{suffix}"),
        form,
    };
    let limits = Allocation { limit: Some(24_000), ..NOTHING };
    [child(sim.folder(), ChildSettings::Folder), child(sim.pool(), ChildSettings::Pool(limits, limits))]
}

async fn realize(
    sim: &Sim,
    suffix: &str,
    store: &mut Notes,
    vcenter: &VCenter,
) -> Result<Vec<MoRef>, crate::policy::context::Error> {
    let mut ledger = store.written.clone();
    realize_children(&children(sim, suffix), &mut ledger, store, vcenter).await
}

async fn names(objects: &[MoRef], vcenter: &VCenter) -> Vec<String> {
    let mut names = Vec::new();
    for object in objects {
        let read = vcenter.client.retrieve(std::slice::from_ref(object), &["name"]).await.unwrap();
        names.push(read[0].get("name").as_str().unwrap().to_owned());
    }
    names
}

async fn below(parent: &MoRef, vcenter: &VCenter) -> usize {
    super::children::contents(parent, vcenter).await.unwrap().len()
}

async fn remove(store: &Notes, vcenter: &VCenter) -> Result<(), crate::policy::context::Error> {
    remove_children(&store.written, store, &|_: &MoRef| false, vcenter).await
}

async fn a_child_is_made_once_whatever_write_is_lost(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let there = (below(&sim.folder(), &vcenter).await, below(&sim.pool(), &vcenter).await);
    for fails_at in [None, Some((1, 500)), Some((2, 500))] {
        let mut store = Notes { fails_at, ..Notes::default() };
        let first = realize(&sim, "a", &mut store, &vcenter).await;
        assert_eq!(first.is_err(), fails_at.is_some());
        store.fails_at = None;
        let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
        assert_eq!(names(&made, &vcenter).await, ["payments", "payments"], "{fails_at:?}");
        let writes = store.writes;
        assert_eq!(realize(&sim, "a", &mut store, &vcenter).await.unwrap(), made);
        assert_eq!(store.writes, writes, "what is so already is not written again");
        assert_eq!(below(&sim.folder(), &vcenter).await, there.0 + 1);
        assert_eq!(below(&sim.pool(), &vcenter).await, there.1 + 1);
        remove(&store, &vcenter).await.unwrap();
        assert_eq!(below(&sim.folder(), &vcenter).await, there.0);
        assert_eq!(below(&sim.pool(), &vcenter).await, there.1);
    }
}

async fn a_child_whose_answer_was_lost_is_found_again(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    for method in ["CreateFolder", "CreateResourcePool"] {
        sim.post("/v1/faults", json!({ "method": method, "kind": "lostAnswer" })).await;
        let mut store = Notes::default();
        realize(&sim, "a", &mut store, &vcenter).await.unwrap_err();
        // If the policy is deleted now, the objects that were created are removed.
        let given_up = Notes { written: store.written.clone(), ..Notes::default() };
        remove(&given_up, &vcenter).await.unwrap();
        sim.post("/v1/faults", json!({ "method": method, "kind": "lostAnswer" })).await;
        let mut store = Notes::default();
        realize(&sim, "a", &mut store, &vcenter).await.unwrap_err();
        let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
        assert_eq!(names(&made, &vcenter).await, ["payments", "payments"], "{method}");
        remove(&store, &vcenter).await.unwrap();
    }
}

async fn a_child_of_others_is_neither_used_nor_changed_nor_destroyed(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let theirs = [
        vcenter.client.create_folder(&sim.folder(), "payments").await.unwrap(),
        vcenter.client.create_resource_pool(&sim.pool(), "payments", NOTHING, NOTHING).await.unwrap(),
    ];
    let mut store = Notes::default();
    let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    assert_eq!(names(&made, &vcenter).await, ["payments-a", "payments-a"]);
    // Another policy doesn't use these children, whatever its name.
    let mut second = Notes { others: store.written.ids().cloned().collect(), ..Notes::default() };
    let own = realize(&sim, "b", &mut second, &vcenter).await.unwrap();
    assert_eq!(names(&own, &vcenter).await, ["payments-b", "payments-b"]);
    let read = vcenter.client.retrieve(&theirs[1..], &["config.cpuAllocation"]).await.unwrap();
    assert_eq!(read[0].get("config.cpuAllocation").get("limit").as_i64(), Some(-1));
    // The second policy keeps its children and their names after the first is deleted.
    remove(&store, &vcenter).await.unwrap();
    assert_eq!(realize(&sim, "b", &mut second, &vcenter).await.unwrap(), own);
    assert_eq!(names(&theirs, &vcenter).await, ["payments", "payments"]);
    // An object whose id is in two ledgers isn't destroyed by either policy.
    let thief = Notes {
        written: second.written.clone(),
        others: second.written.ids().cloned().collect(),
        ..Notes::default()
    };
    remove(&thief, &vcenter).await.unwrap();
    assert_eq!(names(&own, &vcenter).await, ["payments-b", "payments-b"]);
}

async fn a_name_that_is_taken_while_it_is_made_is_somebody_elses(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    sim.post("/v1/faults", json!({ "method": "CreateFolder", "kind": "holdCall" })).await;
    let mut store = Notes::default();
    let other = vsphere::Client::connect(sim.config()).await.unwrap();
    let folder = sim.folder();
    let meanwhile = while_held(&sim, other.create_folder(&folder, "payments"));
    let (refused, theirs) = tokio::join!(realize(&sim, "a", &mut store, &vcenter), meanwhile);
    refused.unwrap_err();
    let theirs = theirs.unwrap();
    let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    assert_ne!(made[0], theirs);
    assert_eq!(names(&made, &vcenter).await, ["payments-a", "payments"]);
}

async fn a_vm_that_comes_into_a_folder_that_is_removed_keeps_it(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let mut store = Notes::default();
    let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    // Deploy the template first, so that the clone is one call.
    template(&vcenter, &template_key(&sim, &vcenter).await).await;
    sim.post("/v1/faults", json!({ "method": "Rename_Task", "kind": "holdCall" })).await;
    let meanwhile = while_held(&sim, clone_into(&made[0], "stray", &sim, &vcenter));
    let (removed, vm) = tokio::join!(remove(&store, &vcenter), meanwhile);
    removed.unwrap();
    assert_eq!(names(&[made[0].clone(), vm], &vcenter).await, ["payments", "stray"]);
}

async fn a_child_that_is_renamed_is_used_on_and_one_that_is_moved_is_waited_for(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let elsewhere = vcenter.client.create_folder(&sim.folder(), "elsewhere").await.unwrap();
    let there = below(&sim.folder(), &vcenter).await;
    let mut store = Notes::default();
    let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    let folder = format!("/v1/folders/{}", made[0].id());

    sim.post(&format!("{folder}/rename"), json!({ "name": "renamed" })).await;
    assert_eq!(realize(&sim, "a", &mut store, &vcenter).await.unwrap(), made);
    sim.post(&format!("{folder}/move"), json!({ "folder": elsewhere.id() })).await;
    for _ in 0..2 {
        let refused = realize(&sim, "a", &mut store, &vcenter).await.unwrap_err().to_string();
        assert!(refused.contains("renamed") && refused.contains(elsewhere.id()), "{refused}");
        assert!(refused.contains("Move it back"), "{refused}");
    }
    assert_eq!(below(&sim.folder(), &vcenter).await, there, "nothing is made in its place");
    // Deleting the policy now leaves the folder in its new parent.
    remove(&store, &vcenter).await.unwrap();
    assert_eq!(below(&elsewhere, &vcenter).await, 1);
    sim.post(&format!("{folder}/move"), json!({ "folder": sim.folder().id() })).await;
    let back = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    assert_eq!(back[0], made[0]);
    remove(&store, &vcenter).await.unwrap();
    assert_eq!(below(&sim.folder(), &vcenter).await, there, "a renamed folder is removed like any other");
}

async fn an_id_that_vcenter_gave_to_another_is_ours_no_more(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let mut store = Notes::default();
    let made = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    // As after a restore from a backup, when ids are assigned again.
    let theirs = vcenter.client.create_folder(&sim.folder(), "theirs").await.unwrap();
    store.written.enter_child(ChildKind::Folder, &sim.folder(), "payments", Some(theirs.id()));
    store.others.insert(theirs.id().to_owned());
    let now = realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    assert!(now[0] != theirs && now[0] != made[0], "{now:?}");
}

async fn a_deleted_policy_releases_its_claimed_ids(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let there = (below(&sim.folder(), &vcenter).await, below(&sim.pool(), &vcenter).await);
    let mut store = Notes::default();
    realize(&sim, "a", &mut store, &vcenter).await.unwrap();
    assert_eq!(vcenter.claimed.lock().len(), 2);
    vcenter.claimed.lock().insert("of-another".to_owned());
    let policy: VirtualMachineSetResourcePolicy = serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [finalizer::RESOURCE_POLICY], "annotations": {ANNOTATION: store.written.text()},
        },
        "spec": {},
    }))
    .unwrap();
    let shown = json!(policy);
    let (client, _) = server(move |_| (200, shown.clone()));
    let runtime = Runtime::detached(client);
    let ctx = Context {
        api: Api::new(&runtime, "vmop/policy"),
        events: Events::new(&runtime, "vmop-policy"),
        provider: Provider::to(&vcenter),
        caches: Caches::start(&runtime, ReplicaCaches::start(&runtime)),
        vms: Enqueue::new().0,
    };
    within("the end", delete(&policy, &ctx)).await.unwrap();
    assert_eq!(below(&sim.folder(), &vcenter).await, there.0);
    assert_eq!(below(&sim.pool(), &vcenter).await, there.1);
    let left: Vec<_> = vcenter.claimed.lock().iter().cloned().collect();
    assert_eq!(left, ["of-another"]);
    runtime.shutdown.cancel();
}

async fn clone_into(folder: &MoRef, name: &str, sim: &Sim, vcenter: &std::sync::Arc<VCenter>) -> MoRef {
    let template = template(vcenter, &template_key(sim, vcenter).await).await;
    let facts = fixtures::facts(Found::Absent);
    let intent = wanted(sim, vcenter, &template, &facts).await;
    clone_bare(&intent, folder, name, vcenter).await
}

on_both_wires!(
    a_child_is_made_once_whatever_write_is_lost,
    a_child_whose_answer_was_lost_is_found_again,
    a_child_of_others_is_neither_used_nor_changed_nor_destroyed,
    a_name_that_is_taken_while_it_is_made_is_somebody_elses,
    a_vm_that_comes_into_a_folder_that_is_removed_keeps_it,
    a_child_that_is_renamed_is_used_on_and_one_that_is_moved_is_waited_for,
    an_id_that_vcenter_gave_to_another_is_ours_no_more,
    a_deleted_policy_releases_its_claimed_ids,
);
