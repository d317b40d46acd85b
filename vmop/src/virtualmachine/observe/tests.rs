//! What the status tells of a machine, with a real simulator.

use std::sync::Arc;

use api::conditions;
use kit::Runtime;
use serde_json::json;
use support::api_server::{refusal, server};
use support::vcsim::Sim;
use support::wait::within;

use crate::probe::ProbeResult;
use crate::testing::fixtures;
use crate::testing::vcsim::{template, template_key, vcenter, wanted};
use crate::virtualmachine::carry_out;
use crate::virtualmachine::observe::context;
use crate::virtualmachine::observe::told_of;
use crate::virtualmachine::plan::{Found, Nothing};
use crate::virtualmachine::status::{Outcome, status};

#[tokio::test]
async fn a_machine_that_was_just_made_is_not_ready_before_its_probe_answers() {
    let Some(sim) = Sim::start("a_machine_that_was_just_made_is_not_ready_before_its_probe_answers") else {
        return;
    };
    let vcenter = vcenter(&sim).await;
    let template = template(&vcenter, &template_key(&sim, &vcenter).await).await;
    let nothing = Nothing { needs: fixtures::needs(), asks: Vec::new(), direct: false };
    let mut facts = fixtures::facts(Found::Nothing(Box::new(nothing)));
    let intent = wanted(&sim, &vcenter, &template, &facts).await;
    let made = within("the clone", carry_out::cloned(&intent, &facts, &vcenter)).await.unwrap();
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
    told_of(&mut facts, &vm, &made, &vcenter, &ctx).await;
    assert_eq!((facts.probe.clone(), ready(&vm, &facts).as_str()), (None, "True"));
    vm.spec.readiness_probe = serde_json::from_value(json!({ "tcpSocket": { "port": 6443 } })).unwrap();
    told_of(&mut facts, &vm, &made, &vcenter, &ctx).await;
    assert_eq!((facts.probe.clone(), ready(&vm, &facts).as_str()), (Some(ProbeResult::Unknown), "Unknown"));
    started.shutdown.cancel();
}
