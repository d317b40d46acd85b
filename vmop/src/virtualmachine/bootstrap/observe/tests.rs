//! Bootstrap data updates for a VM that is off, with a simulated vCenter and an API server with one Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::vmop::VirtualMachine;
use kit::Runtime;
use kit::bounded::Budget;
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::api_server::{Request, refusal, server};
use support::vcsim::Sim;
use support::wait::within;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::device_check::nics_note;
use crate::testing::context::context;
use crate::testing::fixtures;
use crate::testing::vcsim::{clone_vm, planned_clone};
use crate::virtualmachine::bootstrap::data::HASH;
use crate::virtualmachine::bootstrap::observe::read_data_source;
use crate::virtualmachine::observe::observe_power_on;
use crate::virtualmachine::step::Step;

/// The value of the Secret's only key, if the Secret exists.
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

/// Returns the VM from [`fixtures::virtual_machine`], off, with `#cloud-config` in a Secret.
fn object() -> VirtualMachine {
    let mut vm = fixtures::virtual_machine();
    vm.spec.vm_metadata.get_or_insert_default().transport = Some("CloudInit".into());
    vm.spec.network_interfaces = serde_json::from_value(json!([{ "networkName": "workload" }])).unwrap();
    vm
}

#[tokio::test]
async fn a_vm_that_is_off_gets_what_its_user_changed() {
    let Some(sim) = Sim::start("a_vm_that_is_off_gets_what_its_user_changed") else { return };
    let (vcenter, _, facts, mut intent) = planned_clone(&sim).await;
    intent.spec.power_on = false;
    let made = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();

    let secret = Secret::new(Mutex::new(Some("#cloud-config\nfirst: 1\n")));
    let kept = Arc::clone(&secret);
    let (client, requests) = server(move |request| answer(request, &kept));
    let started = Runtime::detached(client);
    let ctx = context(&started, &vcenter);
    let (vm, identity) = (object(), facts.identity);
    let first = read_data_source(&vm, &ctx.api).await.unwrap().user_data.unwrap().hash(identity.bios);
    let noted = |state: PowerState, hash: &str| {
        let mut vsphere_vm = (*made).clone();
        vsphere_vm.power_state = Some(state);
        vsphere_vm.extra_config.insert(HASH.into(), hash.into());
        vsphere_vm.extra_config.extend([nics_note(&vm)]);
        Arc::new(vsphere_vm)
    };
    let update = async |vsphere_vm: &Arc<Vm>| {
        let (nic_change, update) = observe_power_on(&vm, vsphere_vm, identity, &vcenter, &ctx).await.unwrap();
        assert_eq!(nic_change, Ok(None));
        update.data.unwrap()
    };
    let reads = || requests.lock().iter().filter(|request| request.path.starts_with(SECRET)).count();

    // VMs without our data, running VMs, and VMs with the same data don't get an update. For the first two, the Secret isn't
    // even read.
    let before = reads();
    assert_eq!(update(&noted(PowerState::Off, "")).await, None);
    assert_eq!(update(&noted(PowerState::On, &first)).await, None);
    assert_eq!(reads(), before);
    assert_eq!(update(&noted(PowerState::Off, &first)).await, None);

    *secret.lock() = Some("#cloud-config\nsecond: 2\n");
    let again = update(&noted(PowerState::Off, &first)).await.unwrap();
    let steps = again.steps();
    let [Step::Reconfigure(spec)] = steps.as_slice() else { panic!("{again:?}") };
    let set: BTreeMap<String, String> = spec.extra_config.iter().cloned().collect();
    assert_ne!(set[HASH], first);
    let userdata = cloudinit::unpacked(set["guestinfo.userdata"].as_bytes(), &Budget::new(1 << 20)).unwrap();
    assert!(String::from_utf8(userdata).unwrap().contains("second: 2"));
    assert_eq!(update(&noted(PowerState::Off, &set[HASH])).await, None, "it has it");

    // The user may delete the data once the VM has booted.
    *secret.lock() = None;
    assert_eq!(update(&noted(PowerState::Off, &first)).await, None);
    started.shutdown.cancel();
}
