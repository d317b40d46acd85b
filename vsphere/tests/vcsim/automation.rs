//! Tests cluster modules, consoles, and library items captured from VMs, in both Automation API forms.

use std::time::Duration;

use serde_json::json;
use support::vcsim::Sim;
use support::wait::{in_time, poll, within};
use tokio::task::JoinSet;
use uuid::Uuid;
use vsphere::automation::Capture;
use vsphere::{Client, CloneSpec, Config, Inventory, MoRef, PathStyle};

use crate::vms::{Golden, golden, plain_deploy};

/// Connects a client that uses the given form.
pub async fn styled(sim: &Sim, automation: PathStyle) -> Client {
    Client::connect(Config { automation, ..sim.config() }).await.unwrap()
}

/// Creates a VM that is powered off.
async fn made(sim: &Sim, inventory: &Inventory, golden: &Golden, name: &str) -> MoRef {
    let spec = CloneSpec { power_on: false, ..golden.clone_spec(sim, Uuid::new_v4()) };
    let task = inventory.client().clone_vm(&golden.template, &sim.folder(), name, spec).await.unwrap();
    let done = within("the clone", inventory.wait_for_task(&task)).await.unwrap();
    done.moref().unwrap().clone()
}

pub const STYLES: [PathStyle; 2] = [PathStyle::Api, PathStyle::Rest];

async fn cluster(client: &Client, pool: &MoRef) -> MoRef {
    let read = client.retrieve(std::slice::from_ref(pool), &["owner"]).await.unwrap();
    read[0].get("owner").as_moref().unwrap().clone()
}

async fn a_module_holds_vms(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let client = inventory.client();
    let cluster = cluster(client, &sim.pool()).await;
    let module = client.create_cluster_module(&cluster).await.unwrap();
    let all = client.list_cluster_modules().await.unwrap();
    assert_eq!((all[0].id.as_str(), all[0].cluster.as_str()), (module.as_str(), cluster.id()));

    let mut vms = Vec::new();
    for name in ["a", "b"] {
        vms.push(made(&sim, &inventory, &golden, name).await);
    }
    assert!(client.add_to_cluster_module(&module, &vms[..1]).await.unwrap());
    assert!(!client.add_to_cluster_module(&module, &vms).await.unwrap(), "one was there before");
    assert_eq!(client.list_cluster_module_members(&module).await.unwrap().len(), 2);
    client.delete_cluster_module(&module).await.unwrap();
    client.delete_cluster_module(&module).await.unwrap();
    assert!(client.list_cluster_module_members(&module).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_subscribed_item_is_fetched_when_asked() {
    for style in STYLES {
        let Some(sim) = Sim::with_subscription("a_subscribed_item_is_fetched_when_asked") else { return };
        let client = styled(&sim, style).await;
        let items = client.list_library_items(sim.library_named("subscribed")).await.unwrap();
        let item = items.first().unwrap();
        assert!(!client.read_library_item(item).await.unwrap().cached);
        for _ in 0..2 {
            client.sync_subscribed_item(item).await.unwrap();
        }
        assert!(client.read_library_item(item).await.unwrap().cached);
    }
}

async fn a_vm_becomes_an_item_once(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    for style in STYLES {
        let client = styled(&sim, style).await;
        let name = format!("made-{style:?}");
        let capture = Capture {
            vm: golden.template.clone(),
            library_id: sim.library().to_owned(),
            name: name.clone(),
            description: "of golden".into(),
            token: name.clone(),
        };
        let turn = client.captures().enter("").await;
        let item = client.capture_ovf(&turn, &capture, Duration::from_mins(1)).await.unwrap();
        let again = client.capture_ovf(&turn, &capture, Duration::from_mins(1)).await.unwrap();
        assert_eq!(item, again, "the token stands for one request");
        assert_eq!(
            client.find_library_items(sim.library(), &name).await.unwrap(),
            std::slice::from_ref(&item)
        );
        let read = client.read_library_item(&item).await.unwrap();
        assert_eq!((read.description.as_str(), read.kind.as_str()), ("of golden", "ovf"));
        let other = Capture { token: String::new(), ..capture };
        let refused = client.capture_ovf(&turn, &other, Duration::from_mins(1)).await.unwrap_err();
        assert!(matches!(refused.kind(), vsphere::Kind::DuplicateName { .. }), "{refused:?}");
        let missing = Capture { vm: MoRef::vm("vm-0"), name: "x".into(), ..other };
        assert!(client.capture_ovf(&turn, &missing, Duration::from_mins(1)).await.is_err());
    }
}

/// Starts `count` captures that count against the concurrency limit for `share`. The simulator doesn't answer them.
fn hang_captures(client: &Client, sim: &Sim, share: &'static str, count: usize) -> JoinSet<()> {
    let library = sim.library().to_owned();
    let mut hanging = JoinSet::new();
    for n in 0..count {
        let (client, library_id) = (client.clone(), library.clone());
        hanging.spawn(async move {
            let name = format!("{share}-{n}");
            let (vm, description) = (MoRef::vm("vm-0"), String::new());
            let capture = Capture { vm, library_id, token: name.clone(), name, description };
            let turn = client.captures().enter(share).await;
            drop(client.capture_ovf(&turn, &capture, Duration::from_mins(1)).await);
        });
    }
    hanging
}

/// Waits until the simulator holds exactly `count` calls.
async fn wait_for_held(sim: &Sim, count: u64) {
    let held = async || sim.get("/v1/faults").await["faults"][0]["held"].as_u64();
    let enough = || async { held().await.filter(|held| *held >= count) };
    poll("calls are held", Duration::from_secs(20), enough).await.unwrap();
    assert_eq!(held().await, Some(count));
}

async fn captures_hold_no_place_of_short_calls(sim: Sim) {
    let client = styled(&sim, PathStyle::Api).await;
    // Let the client detect the API form first, so that only the captures are held.
    client.library(sim.library()).await.unwrap();
    let held = json!({ "method": "POST /api/vcenter/ovf/library-item", "kind": "holdCall", "count": 0 });
    sim.post("/v1/faults", held).await;
    let mut hanging = hang_captures(&client, &sim, "team-b", 40);
    wait_for_held(&sim, 2).await;
    let short = in_time("a short call", Duration::from_secs(10), client.read_current_time()).await;
    short.unwrap().unwrap();
    // A share can't use the slots that are left for other shares.
    let mut others = hang_captures(&client, &sim, "team-a", 1);
    wait_for_held(&sim, 3).await;
    hanging.shutdown().await;
    sim.release().await;
    within("the other ends", others.join_next()).await;
}

async fn a_console_is_reached_by_a_ticket(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let client = inventory.client();
    let vm = made(&sim, &inventory, &golden, "vm").await;
    assert!(client.acquire_console_url(&vm).await.is_err(), "the VM is off");
    let task = client.power_on(&vm).await.unwrap();
    within("it runs", inventory.wait_for_task(&task)).await.unwrap();
    let url = client.acquire_console_url(&vm).await.unwrap();
    assert!(url.expose().starts_with("wss://"), "{}", url.expose());
    assert_eq!(format!("{url:?}"), "<redacted>");
}

support::on_both_wires!(
    a_module_holds_vms,
    a_vm_becomes_an_item_once,
    captures_hold_no_place_of_short_calls,
    a_console_is_reached_by_a_ticket,
);

/// The name of the member that accepts license agreements differs between vCenter releases.
#[tokio::test]
async fn licence_agreements_are_accepted_by_either_name() {
    for member in ["accept_all_EULA", "accept_all_eula"] {
        for style in [PathStyle::Api, PathStyle::Rest] {
            let Some(sim) = Sim::with_eula_member(member, "licence_agreements_are_accepted_by_either_name")
            else {
                return;
            };
            let client = Client::connect(Config { automation: style, ..sim.config() }).await.unwrap();
            let items = client.list_library_items(sim.library()).await.unwrap();
            let deploy = plain_deploy(&sim, &items[0]);
            let turn = client.deployments().enter("").await;
            let deployed = client.deploy_ovf(&turn, &deploy, Duration::from_mins(1)).await;
            assert!(deployed.is_ok(), "{member} {style:?}: {deployed:?}");
        }
    }
}
