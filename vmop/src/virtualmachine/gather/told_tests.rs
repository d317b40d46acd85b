//! What the status tells of a machine, with a real simulator.

use std::sync::Arc;

use api::conditions;
use kit::Runtime;
use serde_json::json;

use super::context;
use super::told_of;
use crate::api_server::{refusal, server};
use crate::fixture;
use crate::probe::Verdict;
use crate::sim::{Sim, within};
use crate::vcsim::{recipe, site, template, wanted};
use crate::virtualmachine::act;
use crate::virtualmachine::plan::{Found, Nothing};
use crate::virtualmachine::status::{Outcome, status};

#[tokio::test]
async fn a_machine_that_was_just_made_is_not_ready_before_its_probe_answers() {
    let Some(sim) = Sim::start("a_machine_that_was_just_made_is_not_ready_before_its_probe_answers") else {
        return;
    };
    let site = site(&sim).await;
    let template = template(&site, &recipe(&sim, &site).await).await;
    let nothing = Nothing { needs: fixture::needs(), asks: Vec::new(), direct: false };
    let mut facts = fixture::facts(Found::Nothing(Box::new(nothing)));
    let intent = wanted(&sim, &site, &template, &facts).await;
    let made = within("the clone", act::cloned(&intent, &facts, &site)).await.unwrap();
    let mut made = Arc::unwrap_or_clone(made);
    made.guest.ip = Some("192.0.2.1".into());

    let started = Runtime::detached(server(|_| refusal(404, "NotFound")).0);
    let ctx = context(&started, &site);
    let mut vm = fixture::object();
    let ready = |vm: &_, facts: &_| {
        let status = status(vm, Some(facts), &Outcome::Done(Some(&made)));
        conditions::find(&status.conditions, conditions::READY).unwrap().status.clone()
    };
    vm.spec.readiness_probe = None;
    told_of(&mut facts, &vm, &made, &site, &ctx).await;
    assert_eq!((facts.probe.clone(), ready(&vm, &facts).as_str()), (None, "True"));
    vm.spec.readiness_probe = serde_json::from_value(json!({ "tcpSocket": { "port": 6443 } })).unwrap();
    told_of(&mut facts, &vm, &made, &site, &ctx).await;
    assert_eq!((facts.probe.clone(), ready(&vm, &facts).as_str()), (Some(Verdict::Unknown), "Unknown"));
    started.shutdown.cancel();
}
