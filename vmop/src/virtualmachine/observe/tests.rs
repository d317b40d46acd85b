//! Tests what is read about a running VM, with a real simulator.

use std::net::IpAddr;
use std::sync::Arc;

use api::conditions;
use kit::watch::Cache;
use serde_json::json;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::Vm;

use crate::caches::held;
use crate::probe::ProbeResult;
use crate::testing::context::{context, empty_runtime};
use crate::testing::fixtures;
use crate::testing::vcsim::{clone_vm, template, template_key, vcenter, wanted};
use crate::vcenter::VCenter;
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::observe::observe_runtime;
use crate::virtualmachine::status::{Outcome, compute_status};

mod power_on;

/// Returns a VM whose guest reports an address.
async fn reporting(sim: &Sim, vcenter: &Arc<VCenter>, facts: &Facts) -> Vm {
    let template = template(vcenter, &template_key(sim, vcenter).await).await;
    let intent = wanted(sim, vcenter, &template, facts).await;
    let made = within("the clone", clone_vm(&intent, facts, vcenter)).await.unwrap();
    let mut made = Arc::unwrap_or_clone(made);
    made.guest.ip = Some("192.0.2.1".into());
    made
}

#[tokio::test]
async fn an_address_of_another_vm_is_not_an_endpoint_and_is_not_probed() {
    let Some(sim) = Sim::start("an_address_of_another_vm_is_not_an_endpoint_and_is_not_probed") else {
        return;
    };
    let vcenter = vcenter(&sim).await;
    let made = reporting(&sim, &vcenter, &fixtures::facts_of_creation(fixtures::needs())).await;
    let started = empty_runtime();
    let mut ctx = context(&started, &vcenter);
    let vm = fixtures::virtual_machine();
    let alone = observe_runtime(&vm, &made, &vcenter, &ctx).await;
    assert_eq!((alone.endpoint_addresses.len(), alone.address_conflict), (1, None));

    let mut first = fixtures::virtual_machine();
    first.metadata.name = Some("first".to_owned());
    first.status.get_or_insert_default().endpoint_addresses = vec!["192.0.2.1".to_owned()];
    ctx.caches.vms_by_address = Cache::filled([first]).index(held);
    let second = observe_runtime(&vm, &made, &vcenter, &ctx).await;
    assert_eq!(second.endpoint_addresses, Vec::<IpAddr>::new());
    assert!(second.address_conflict.is_some_and(|why| why.contains("VirtualMachine first already uses")));
    assert!(matches!(second.probe, Some(ProbeResult::NoAnswer(_))), "{:?}", second.probe);
    started.shutdown.cancel();
}

#[tokio::test]
async fn a_vm_that_was_just_created_is_not_ready_before_its_probe_answers() {
    let Some(sim) = Sim::start("a_vm_that_was_just_created_is_not_ready_before_its_probe_answers") else {
        return;
    };
    let vcenter = vcenter(&sim).await;
    let mut facts = fixtures::facts_of_creation(fixtures::needs());
    let made = reporting(&sim, &vcenter, &facts).await;

    let started = empty_runtime();
    let ctx = context(&started, &vcenter);
    let mut vm = fixtures::virtual_machine();
    let ready = |vm: &_, facts: &_| {
        let status = compute_status(vm, Some(facts), &Outcome::Done(Some(&made)));
        conditions::find(&status.conditions, conditions::READY).unwrap().status.clone()
    };
    vm.spec.readiness_probe = None;
    facts.runtime = observe_runtime(&vm, &made, &vcenter, &ctx).await;
    assert_eq!((facts.runtime.probe.clone(), ready(&vm, &facts).as_ref()), (None, "True"));
    vm.spec.readiness_probe = serde_json::from_value(json!({ "tcpSocket": { "port": 6443 } })).unwrap();
    facts.runtime = observe_runtime(&vm, &made, &vcenter, &ctx).await;
    assert_eq!(
        (facts.runtime.probe.clone(), ready(&vm, &facts).as_ref()),
        (Some(ProbeResult::Unknown), "Unknown")
    );
    started.shutdown.cancel();
}
