//! What is read of a VM that runs, with a real simulator.

use std::sync::Arc;

use api::conditions;
use kit::Runtime;
use serde_json::json;
use support::api_server::{refusal, server};
use support::vcsim::Sim;
use support::wait::within;

use crate::probe::ProbeResult;
use crate::testing::context::context;
use crate::testing::fixtures;
use crate::testing::vcsim::{clone_vm, template, template_key, vcenter, wanted};
use crate::virtualmachine::observe::observe_runtime;
use crate::virtualmachine::status::{Outcome, status};

mod power_on;

#[tokio::test]
async fn a_vm_that_was_just_created_is_not_ready_before_its_probe_answers() {
    let Some(sim) = Sim::start("a_vm_that_was_just_created_is_not_ready_before_its_probe_answers") else {
        return;
    };
    let vcenter = vcenter(&sim).await;
    let template = template(&vcenter, &template_key(&sim, &vcenter).await).await;
    let mut facts = fixtures::facts_of_creation(fixtures::needs());
    let intent = wanted(&sim, &vcenter, &template, &facts).await;
    let made = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    let mut made = Arc::unwrap_or_clone(made);
    made.guest.ip = Some("192.0.2.1".into());

    let started = Runtime::detached(server(|_| refusal(404, "NotFound")).0);
    let ctx = context(&started, &vcenter);
    let mut vm = fixtures::virtual_machine();
    let ready = |vm: &_, facts: &_| {
        let status = status(vm, Some(facts), &Outcome::Done(Some(&made)));
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
