//! Tests VMs in the creation queue, with an API server that accepts their statuses or has lost their VirtualMachines.

use std::sync::Arc;

use futures::FutureExt;
use kit::Runtime;
use kube::ResourceExt;
use serde_json::json;
use support::api_server::{refusal, server};
use support::vcsim::Sim;
use support::wait::within;
use tokio::sync::mpsc;

use crate::testing::context::{context, empty_runtime};
use crate::testing::fixtures;
use crate::testing::vcsim::vcenter;
use crate::virtualmachine::carry_out::object::confirm_plan;
use crate::virtualmachine::context::CREATE_CONCURRENCY;
use crate::virtualmachine::plan::{self, Plan};
use crate::virtualmachine::wait_for_slot;

#[tokio::test]
async fn a_vm_that_is_queued_for_long_says_so_and_is_created_when_there_is_a_slot() {
    let name = "a_vm_that_is_queued_for_long_says_so_and_is_created_when_there_is_a_slot";
    let Some(sim) = Sim::start(name) else { return };
    let vcenter = vcenter(&sim).await;
    let (sender, mut patches) = mpsc::unbounded_channel();
    let (client, _) = server(move |request| {
        if !request.line().starts_with("PATCH ") {
            return refusal(404, "NotFound");
        }
        sender.send(request.body.clone()).unwrap();
        (200, json!(fixtures::virtual_machine()))
    });
    let started = Runtime::detached(client);
    let ctx = context(&started, &vcenter);
    let vm = fixtures::virtual_machine();
    let (slot, waited) = wait_for_slot(&vm, &ctx).await.unwrap();
    assert!(slot.is_some() && !waited, "there is a slot");

    drop(slot);
    let namespace = vm.namespace().unwrap();
    let mut all = Vec::new();
    for _ in 0..CREATE_CONCURRENCY {
        all.push(ctx.create_slots.enter(&namespace).now_or_never().expect("a slot"));
    }
    let mut others = vm.clone();
    others.metadata.namespace = Some("others".to_owned());
    let (slot, waited) = within("a slot", wait_for_slot(&others, &ctx)).await.unwrap();
    assert!(slot.is_some() && !waited, "another namespace has its slots");
    let mut next = Box::pin(wait_for_slot(&vm, &ctx));
    let patch = tokio::select! {
        _ = &mut next => panic!("there is no slot"),
        patch = within("a status", patches.recv()) => patch.unwrap().to_string(),
    };
    assert!(patch.contains("The VM is queued") && patch.contains("WaitingForVCenter"), "{patch}");
    drop(all);
    let (slot, waited) = within("the slot", next).await.unwrap();
    assert!(slot.is_some() && waited);
    started.shutdown.cancel();
}

#[tokio::test]
async fn no_vm_is_made_for_an_object_that_went_while_its_finalizer_was_put_on() {
    let name = "no_vm_is_made_for_an_object_that_went_while_its_finalizer_was_put_on";
    let Some(sim) = Sim::start(name) else { return };
    let vcenter = vcenter(&sim).await;
    let started = empty_runtime();
    let ctx = context(&started, &vcenter);
    let [cached, written] = [fixtures::virtual_machine(), fixtures::virtual_machine()].map(Arc::new);
    let plan = plan::plan(&written, &fixtures::facts_of_creation(fixtures::needs())).unwrap();
    assert!(matches!(plan, Plan::Create { .. }));
    let error = confirm_plan(Ok(plan), &cached, &written, &ctx).await.unwrap_err();
    assert!(error.to_string().contains("the cache"), "{error}");
    started.shutdown.cancel();
}
