//! Tests the agent with a fake control API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::routing::{get, put};
use axum::{Json, Router};
use parking_lot::Mutex;
use plane::StackIdentity;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{BootReport, Guests, Options, Phase};
use crate::addresses::Subnet;
use crate::guest::failure::Reason;
use crate::guest::sample;
use crate::vcsim::control::ControlApi;

/// The control API of a fake vCenter with at most one VM.
#[derive(Clone)]
struct FakeControlApi {
    vms: watch::Sender<(u64, Value)>,
    guestinfo: Arc<Mutex<BTreeMap<String, String>>>,
    report: Arc<Mutex<Value>>,
}

async fn vms(
    State(control): State<FakeControlApi>,
    Query(query): Query<BTreeMap<String, u64>>,
) -> Json<Value> {
    let mut vms = control.vms.subscribe();
    let since = query.get("since").copied().unwrap_or_default();
    let newer = vms.wait_for(|(revision, _)| *revision > since).await.unwrap();
    Json(json!({ "revision": newer.0, "vms": newer.1 }))
}

async fn guestinfo(
    State(control): State<FakeControlApi>,
    Path(_): Path<String>,
) -> Json<BTreeMap<String, String>> {
    Json(control.guestinfo.lock().clone())
}

async fn set_guestinfo(State(control): State<FakeControlApi>, Json(values): Json<BTreeMap<String, String>>) {
    control.guestinfo.lock().extend(values);
}

async fn report(State(control): State<FakeControlApi>, Json(report): Json<Value>) {
    *control.report.lock() = report;
}

impl FakeControlApi {
    /// Starts the fake control API and returns it with a client.
    async fn open() -> (Self, ControlApi) {
        let control = Self {
            vms: watch::Sender::new((1, Value::Null)),
            guestinfo: Arc::default(),
            report: Arc::default(),
        };
        let routes = Router::new()
            .route("/v1/vms", get(vms))
            .route("/v1/vms/{moid}/guestinfo", get(guestinfo).patch(set_guestinfo))
            .route("/v1/vms/{moid}/guest", put(report))
            .with_state(control.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (control, ControlApi::new(&base, "token"))
    }

    fn is(&self, power: &str, boot_count: u64) {
        let vm = json!({ "moid": "vm-1", "name": "c-0", "uuid": "u", "powerState": power, "bootCount": boot_count });
        self.vms.send_modify(|(revision, vms)| (*revision, *vms) = (*revision + 1, json!([vm])));
    }

    fn is_gone(&self) {
        self.vms.send_modify(|(revision, vms)| (*revision, *vms) = (*revision + 1, Value::Null));
    }

    fn set(&self, key: &str, value: &str) {
        self.guestinfo.lock().insert(format!("guestinfo.{key}"), value.to_owned());
    }

    fn key(&self, key: &str) -> Option<String> {
        self.guestinfo.lock().get(&format!("guestinfo.{key}")).cloned()
    }
}

async fn reached(guests: &Guests, there: impl Fn(&Phase) -> bool) -> BootReport {
    tokio::time::timeout(Duration::from_secs(10), guests.reached("c-0", there))
        .await
        .expect("the guest does not come there")
}

fn start(control: ControlApi, stack: &Arc<StackIdentity>, subnet: &Subnet) -> Guests {
    let programs = sample::programs(std::path::Path::new("/nonexistent"));
    Guests::start(Options::new(control, subnet.clone(), programs, Arc::clone(stack)))
}

#[tokio::test]
async fn a_guest_follows_its_vm() {
    let stack = Arc::new(StackIdentity::ephemeral().unwrap());
    let subnet = Subnet::claim().unwrap();
    let (vcenter, control) = FakeControlApi::open().await;
    let guests = start(control, &stack, &subnet);

    vcenter.is("poweredOn", 1);
    let plain = reached(&guests, |phase| matches!(phase, Phase::Plain(_))).await;
    assert_eq!(guests.failure("c-0").unwrap().reason, Reason::NoDatasource);
    let ip = plain.address.reported.to_string();
    assert_eq!(*vcenter.report.lock(), json!({ "ip": ip, "hostName": "localhost", "toolsRunning": true }));
    vcenter.is("poweredOff", 1);
    reached(&guests, |phase| *phase == Phase::Off).await;

    vcenter.set("metadata", "instance-id: c-0\nlocal-hostname: c-0\nredact: [userdata]\n");
    vcenter.set("userdata", "#cloud-config\nsecret: s3cret\n");
    guests.hold("c-*");
    vcenter.is("poweredOn", 2);
    reached(&guests, |phase| *phase == Phase::Held).await;
    assert_eq!(vcenter.key("local-ipv4"), None);
    assert!(vcenter.key("userdata").unwrap().contains("s3cret"));

    guests.release("c-*");
    let failed = reached(&guests, |phase| matches!(phase, Phase::Failed(_))).await;
    assert_eq!(failed.address, plain.address, "the VM's address has changed");
    let failure = guests.failure("c-0").unwrap();
    assert_eq!(failure.reason, Reason::UnknownKey);
    assert!(!failure.message.contains("s3cret"));
    assert_eq!(vcenter.key("userdata").as_deref(), Some("---"));
    assert_eq!(vcenter.key("local-ipv4"), Some(ip));
    assert_eq!(vcenter.report.lock()["hostName"], "c-0");

    vcenter.is("poweredOn", 3);
    reached(&guests, |phase| matches!(phase, Phase::Plain(_))).await;
    assert_eq!(guests.failure("c-0").unwrap().reason, Reason::NoUserdata);
    let disk = stack.folder().join("guests/vm-1");
    assert!(disk.exists());
    vcenter.is_gone();
    let gone = async {
        while guests.boot_of("c-0").is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    assert!(!disk.exists());
    guests.stop().await;
    std::fs::remove_dir_all(stack.folder()).unwrap();
}
