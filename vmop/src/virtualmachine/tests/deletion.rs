//! Tests deletions without a provider configuration or with a snapshot, with a real simulator over both vSphere API protocols.

use std::sync::Arc;

use api::names::finalizer;
use api::vmop::VirtualMachine;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::watch::Cache;
use kit::{Disposition, ReconcileError as _, Runtime};
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::api_server::{Request, server};
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::inventory::Presence;

use super::outages::{identity, made};
use crate::testing::context::context;
use crate::testing::vcsim::{names, vcenter};
use crate::vcenter::{Problem, Provider, VCenter};
use crate::virtualmachine::context::Context;
use crate::virtualmachine::error::{Blocked, Error};
use crate::virtualmachine::reconcile_deletion;

const MISSING: &str = "ConfigMap ns/vsphere.provider.config.vmoperator.vmware.com does not exist";

/// Returns the writes to objects since the last call, without events.
fn writes(requests: &Mutex<Vec<Request>>) -> Vec<(String, Value)> {
    let requests = std::mem::take(&mut *requests.lock());
    let writes = requests.into_iter().filter(|request| !["GET", "POST"].contains(&request.method.as_str()));
    writes.map(|request| (request.line(), request.body)).collect()
}

async fn a_deleted_vm_waits_for_the_provider_configuration(sim: Sim) {
    let Deleted { vcenter, requests, runtime, mut ctx, vm } = Deleted::of(&sim).await;
    let before = names(&sim).await;
    writes(&requests);

    ctx.provider = Provider::broken(Problem::new(MISSING));
    let refused = reconcile_deletion(&vm, &ctx).await;
    assert!(matches!(refused, Err(Error::Blocked(Blocked::Provider(_)))), "{:?}", refused.err());
    let written = writes(&requests);
    let [(line, status)] = &written[..] else { panic!("{written:?}") };
    assert!(line.starts_with("PATCH ") && line.ends_with("/virtualmachines/cp-0/status"), "{line}");
    let ready = &status["status"]["conditions"].as_array().expect("conditions")[0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("False")));
    assert_eq!(ready["reason"], "DeletionFailed");
    assert!(ready["message"].as_str().is_some_and(|message| message.contains(MISSING)), "{ready}");
    assert_eq!(names(&sim).await, before, "the VM stays");

    ctx.provider = Provider::to(&vcenter);
    within("the end", reconcile_deletion(&vm, &ctx)).await.unwrap();
    assert_eq!(vcenter.inventory.by_uuid(identity(&vm).instance), Presence::Absent);
    let (line, patch) = writes(&requests).pop().expect("a write");
    assert!(line.ends_with("/virtualmachines/cp-0"), "{line}");
    let left = patch["metadata"]["finalizers"].as_array().expect("finalizers");
    assert!(!left.contains(&json!(finalizer::VIRTUAL_MACHINE)), "{patch}");
    runtime.shutdown.cancel();
}

/// A foreign disk can't be detached while the VM has a snapshot: the condition says so, and the VM isn't destroyed.
async fn a_snapshot_holds_the_deletion_of_a_vm_with_another_ones_disk(sim: Sim) {
    let Deleted { vcenter, requests, runtime, ctx, vm } = Deleted::of(&sim).await;
    let moref = vcenter.inventory.by_uuid(identity(&vm).instance).present().unwrap().moref.clone();
    let order = json!({ "file": "[ds1] theirs/disk.vmdk", "capacityMiB": 64 });
    sim.post(&format!("/v1/vms/{}/disks", moref.id()), order).await;
    let task = vcenter.client.create_snapshot(&moref, "before the upgrade", "").await.unwrap();
    within("the snapshot", vcenter.inventory.wait_for_task(&task)).await.unwrap();
    writes(&requests);
    sim.forget_requests().await;

    let refused = within("the refusal", reconcile_deletion(&vm, &ctx)).await.unwrap_err();
    assert!(matches!(refused.disposition(), Disposition::Waiting(Some(_))), "looked at again: {refused:?}");
    let (_, status) = writes(&requests).pop().expect("a status");
    let ready = &status["status"]["conditions"].as_array().expect("conditions")[0];
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("DeletionFailed")));
    let message = ready["message"].as_str().unwrap();
    for words in ["blocked by its snapshots", "1 disk(s)", "govc snapshot.remove -vm cp-0 '*'"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!((sim.calls("ReconfigVM_Task").await, sim.calls("Destroy_Task").await), (0, 0));

    let removed = vcenter.client.call(&moref, "RemoveAllSnapshots_Task", None).await.unwrap();
    within("the removal", vcenter.inventory.wait_for_task(removed.as_moref().unwrap())).await.unwrap();
    within("the end", reconcile_deletion(&vm, &ctx)).await.unwrap();
    assert_eq!(vcenter.inventory.by_uuid(identity(&vm).instance), Presence::Absent);
    assert_eq!(sim.get("/v1/orphans").await["files"], json!(["ds1/theirs"]), "their disk stays");
    runtime.shutdown.cancel();
}

/// A running VM whose VirtualMachine is being deleted, both in the API server and in the cache.
struct Deleted {
    vcenter: Arc<VCenter>,
    requests: Arc<Mutex<Vec<Request>>>,
    runtime: Runtime,
    ctx: Context,
    vm: Arc<VirtualMachine>,
}

impl Deleted {
    async fn of(sim: &Sim) -> Self {
        let vcenter = vcenter(sim).await;
        let there = Arc::new(Mutex::new(Value::Null));
        let shown = Arc::clone(&there);
        let (client, requests) = server(move |_| (200, shown.lock().clone()));
        let runtime = Runtime::detached(client);
        let mut ctx = context(&runtime, &vcenter);
        let mut vm = made(1, sim, &vcenter, &ctx).await.remove(0);
        vm.metadata.uid = Some("uid-of-cp-0".to_owned());
        vm.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        *there.lock() = json!(vm);
        ctx.caches.vms = Cache::filled([vm.clone()]);
        Self { vcenter, requests, runtime, ctx, vm: Arc::new(vm) }
    }
}

on_both_wires!(
    a_deleted_vm_waits_for_the_provider_configuration,
    a_snapshot_holds_the_deletion_of_a_vm_with_another_ones_disk,
);
