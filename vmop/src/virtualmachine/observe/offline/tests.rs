//! A machine whose spec names other cards, with a real simulator on both wires and an API server of one Secret.

use std::collections::BTreeMap;

use support::api_server::{refusal, server};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::Runtime;
use serde_json::json;
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::inventory::Presence;
use vsphere::{ConfigSpec, VirtualNic};

use super::*;
use crate::testing::fixtures;
use crate::testing::vcsim::{template, template_key, vcenter, wanted};
use crate::virtualmachine::bootstrap::HASH;
use crate::virtualmachine::observe::context;
use crate::virtualmachine::plan::{Facts, Found, Plan, plan};
use crate::virtualmachine::step::Step;
use crate::virtualmachine::{carry_out, delete};

/// The machine as the stream shows it, once `so` holds.
async fn seen(machine: &Vm, vcenter: &VCenter, so: impl Fn(&Vm) -> bool) -> Arc<Vm> {
    let seen = async {
        loop {
            match vcenter.inventory.vm(&machine.moref) {
                Presence::Present(now) if so(&now) => return now,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    within("the stream tells", seen).await
}

async fn a_machine_gets_the_cards_that_its_spec_names_before_it_runs_again(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let template = template(&vcenter, &template_key(&sim, &vcenter).await).await;
    let facts = fixtures::facts(Found::Lost(None));
    let mut intent = wanted(&sim, &vcenter, &template, &facts).await;
    intent.spec.power_on = false;
    let config = intent.spec.config.get_or_insert_with(ConfigSpec::default);
    config.extra_config.push((HASH.into(), "told before".into()));
    let made = within("the clone", carry_out::cloned(&intent, &facts, &vcenter)).await.unwrap();
    let made = seen(&made, &vcenter, |machine| machine.extra_config.contains_key(HASH)).await;
    let cards = async || vcenter.client.read_nics(&made.moref).await.unwrap();
    let first: Vec<VirtualNic> = cards().await;

    let started = Runtime::detached(
        server(|request| match request.line().as_str() {
            "GET /api/v1/namespaces/ns/secrets/cp-0-cloud-init" => {
                let data = json!({ "user-data": STANDARD.encode("#cloud-config\n") });
                (200, json!({ "metadata": { "name": "cp-0-cloud-init", "namespace": "ns" }, "data": data }))
            }
            _ => refusal(404, "NotFound"),
        })
        .0,
    );
    let ctx = context(&started, &vcenter);
    let mut vm = fixtures::virtual_machine();
    vm.spec.vm_metadata.get_or_insert_default().transport = Some("CloudInit".into());
    let named = json!([{ "networkName": "VM Network" }, { "networkName": "workload" }]);
    vm.spec.network_interfaces = serde_json::from_value(named).unwrap();
    let steps = async |machine: &Arc<Vm>| {
        let anew = rewired(&vm, machine, facts.identity, &vcenter, &ctx).await.unwrap();
        let (rewired, retold, asks) = anew;
        assert!(asks.is_empty());
        let found = Found::Ours(Arc::clone(machine));
        match plan(&vm, &Facts { found, rewired, retold, ..facts.clone() }).unwrap() {
            Plan::Change { steps, .. } => steps,
            other => panic!("{other:?}"),
        }
    };
    let taken = async |steps: &[Step]| {
        for step in steps {
            within("a step", carry_out::steps::carried_out(&made.moref, step, &vcenter)).await.unwrap();
        }
    };
    let words = |steps: &[Step]| steps.iter().map(Step::word).collect::<Vec<_>>().join(", ");

    // The cards alone: what vCenter makes of them is not known yet.
    let change = steps(&made).await;
    assert_eq!(words(&change), "reconfigure");
    taken(&change).await;
    let second = cards().await;
    assert_eq!((first.len(), second.len()), (1, 2));
    assert_eq!(second[0], first[0], "the card on a network that is still named stays");

    // As if the process had ended here: the guest is told of both, by their MACs, and that is noted last.
    let rest = steps(&made).await;
    assert_eq!(words(&rest), "reconfigure, reconfigure, power on");
    let Step::Reconfigure(told) = &rest[0] else { panic!("{rest:?}") };
    let told: BTreeMap<_, _> = told.extra_config.iter().cloned().collect();
    let metadata = cloudinit::unpacked(told["guestinfo.metadata"].as_bytes()).unwrap();
    let metadata = String::from_utf8(metadata).unwrap();
    for card in &second {
        assert!(metadata.contains(card.address.as_deref().unwrap()), "{metadata}");
    }
    taken(&rest).await;
    let done = seen(&made, &vcenter, |machine| !differs(&vm, machine)).await;
    let mut off = (*done).clone();
    off.power_state = Some(PowerState::Off);
    let (again, _, _) = rewired(&vm, &Arc::new(off), facts.identity, &vcenter, &ctx).await.unwrap();
    assert_eq!(again, Ok(None));
    assert_eq!(cards().await, second);
    within("its end", delete::end(&done, &vcenter)).await.unwrap();
    started.shutdown.cancel();
}

on_both_wires!(a_machine_gets_the_cards_that_its_spec_names_before_it_runs_again);
