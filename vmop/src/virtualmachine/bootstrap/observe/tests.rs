//! What a machine that is off is told anew, with a real simulator and an API server of one Secret.

use std::sync::Arc;

use kit::Runtime;
use kit::apply::Api;
use kit::events::Events;
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::api_server::{Request, refusal, server};
use support::vcsim::Sim;
use support::wait::within;
use vsphere::inventory::PowerState;

use super::*;
use crate::caches::Caches;
use crate::caches::ReplicaCaches;
use crate::data_sources::DataSourceWatches;
use crate::enqueue::Enqueue;
use crate::probe::Prober;
use crate::templates::TemplateCache;
use crate::testing::fixtures;
use crate::testing::vcsim::{template, template_key, vcenter, wanted};
use crate::vcenter::Provider;
use crate::virtualmachine::carry_out;
use crate::virtualmachine::carry_out::promotion::Promotions;
use crate::virtualmachine::nic::change::noted;
use crate::virtualmachine::observe::offline::rewired;
use crate::virtualmachine::plan::Found;
use crate::virtualmachine::step::Step;

/// The Secret's one key, if there is a Secret.
type Secret = Arc<Mutex<Option<&'static str>>>;

const SECRET: &str = "/api/v1/namespaces/ns/secrets/cp-0-cloud-init";

fn answer(request: &Request, secret: &Secret) -> (u16, Value) {
    use base64::Engine as _;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    match *secret.lock() {
        Some(text) if request.line() == format!("GET {SECRET}") => {
            let metadata = json!({ "name": "cp-0-cloud-init", "namespace": "ns", "resourceVersion": "1" });
            (200, json!({ "metadata": metadata, "data": { "user-data": encoded(text) } }))
        }
        _ => refusal(404, "NotFound"),
    }
}

pub fn context(started: &Runtime, vcenter: &Arc<VCenter>) -> Context {
    let (vms, _) = Enqueue::new();
    Context {
        api: Api::new(started, "vmop/machine"),
        events: Events::new(started, "vmop-machine"),
        provider: Provider::to(vcenter),
        caches: Caches::start(started, &ReplicaCaches::start(started)),
        prober: Prober::new(Vec::new()).0,
        data_sources: DataSourceWatches::new(started.client.clone(), vms.clone()),
        promotions: Promotions::new(vms),
        asked: carry_out::guest::Asked::default(),
        ended: Mutex::default(),
        room: Arc::new(tokio::sync::Semaphore::new(crate::virtualmachine::ROOM)),
        told: Mutex::default(),
        policies: Enqueue::new().0,
        sync_requests: Arc::default(),
        templates: TemplateCache::new(Arc::new(|_: &str| {})).0,
    }
}

/// The machine of [`fixtures::virtual_machine`], off; its user gives `#cloud-config` in a Secret.
fn object() -> VirtualMachine {
    let mut vm = fixtures::virtual_machine();
    vm.spec.vm_metadata.get_or_insert_default().transport = Some("CloudInit".into());
    vm.spec.network_interfaces = serde_json::from_value(json!([{ "networkName": "workload" }])).unwrap();
    vm
}

#[tokio::test]
async fn a_machine_that_is_off_is_told_anew_what_its_user_changed() {
    let Some(sim) = Sim::start("a_machine_that_is_off_is_told_anew_what_its_user_changed") else { return };
    let vcenter = vcenter(&sim).await;
    let template = template(&vcenter, &template_key(&sim, &vcenter).await).await;
    let facts = fixtures::facts(Found::Lost(None));
    let mut intent = wanted(&sim, &vcenter, &template, &facts).await;
    intent.spec.power_on = false;
    let made = within("the clone", carry_out::cloned(&intent, &facts, &vcenter)).await.unwrap();

    let secret = Secret::new(Mutex::new(Some("#cloud-config\nfirst: 1\n")));
    let kept = Arc::clone(&secret);
    let (client, requests) = server(move |request| answer(request, &kept));
    let started = Runtime::detached(client);
    let ctx = context(&started, &vcenter);
    let (vm, identity) = (object(), facts.identity);
    let first = read(&vm, &ctx).await.unwrap().told.unwrap().hash(identity.bios);
    let noted = |state: PowerState, hash: &str| {
        let mut machine = (*made).clone();
        machine.power_state = Some(state);
        machine.extra_config.insert(HASH.into(), hash.into());
        machine.extra_config.extend([noted(&vm)]);
        Arc::new(machine)
    };
    let retold = async |machine: &Arc<Vm>| {
        let (rewired, retold, _) = rewired(&vm, machine, identity, &vcenter, &ctx).await.unwrap();
        assert_eq!(rewired, Ok(None));
        retold.unwrap()
    };
    let reads = || requests.lock().iter().filter(|request| request.path.starts_with(SECRET)).count();

    // Who was never told by us, runs, or was told the same, is told nothing; the former two without a read.
    let before = reads();
    assert_eq!(retold(&noted(PowerState::Off, "")).await, None);
    assert_eq!(retold(&noted(PowerState::On, &first)).await, None);
    assert_eq!(reads(), before);
    assert_eq!(retold(&noted(PowerState::Off, &first)).await, None);

    *secret.lock() = Some("#cloud-config\nsecond: 2\n");
    let again = retold(&noted(PowerState::Off, &first)).await.unwrap();
    let steps = again.steps();
    let [Step::Reconfigure(spec)] = steps.as_slice() else { panic!("{again:?}") };
    let told: BTreeMap<String, String> = spec.extra_config.iter().cloned().collect();
    assert_ne!(told[HASH], first);
    let userdata = cloudinit::unpacked(told["guestinfo.userdata"].as_bytes()).unwrap();
    assert!(String::from_utf8(userdata).unwrap().contains("second: 2"));
    assert_eq!(retold(&noted(PowerState::Off, &told[HASH])).await, None, "it has been told");

    // Bootstrap data may go once the machine has booted.
    *secret.lock() = None;
    assert_eq!(retold(&noted(PowerState::Off, &first)).await, None);
    started.shutdown.cancel();
}
