//! Tests imports into a simulated vCenter, with an interruption at every call.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde_json::json;
use support::vcsim::{NODE_OVF, Sim, empty_disk};
use support::wait::poll;
use tempfile::TempDir;
use uuid::Uuid;
use vsphere::automation::NewFile;

use super::ova::tests::{manifest_of, pack};
use super::*;

const SOON: Duration = Duration::from_secs(30);
const PUT: &str = "PUT /cls/data";

/// A simulated vCenter with a client, and an OVA.
struct Bench {
    sim: Sim,
    vcenter: Client,
    folder: TempDir,
    ova: Ova,
}

fn pack_node(path: &Path, ovf: &str) -> Ova {
    pack_disk(path, ovf, &empty_disk())
}

fn pack_disk(path: &Path, ovf: &str, disk: &[u8]) -> Ova {
    let files = [("node.ovf", ovf.as_bytes()), ("node-disk1.vmdk", disk)];
    let manifest = manifest_of(&files);
    pack(path, &[files[0], ("node.mf", manifest.as_bytes()), files[1]]);
    Ova::read(path, &AtomicU64::new(0)).unwrap()
}

impl Bench {
    async fn new(sim: Option<Sim>) -> Option<Self> {
        let sim = sim?;
        let vcenter = sim.client().await;
        let folder = TempDir::new().unwrap();
        let ova = pack_node(&folder.path().join("node.ova"), NODE_OVF);
        Some(Self { sim, vcenter, folder, ova })
    }

    async fn wanted(&self, name: &str) -> WantedItem {
        let library = find_library(&self.vcenter, "layercake").await.unwrap();
        let (name, sha256) = (name.to_owned(), self.ova.sha256.clone());
        WantedItem { library, name, sha256, file: "node.ova".to_owned() }
    }

    async fn import_with(&self, name: &str, keep_alive: Duration) -> Result<(String, bool)> {
        let progress = TransferProgress::begin("uploading", self.ova.size());
        brought(&self.vcenter, &self.ova, &self.wanted(name).await, keep_alive, &progress).await
    }

    async fn import(&self, name: &str) -> Result<(String, bool)> {
        self.import_with(name, KEEP_ALIVE).await
    }

    /// Runs an import like the command, including the cleanup after a failure. Returns `None` after an interrupt.
    async fn bring(&self, name: &str) -> Result<Option<Report>> {
        let mut interrupts = Interrupts::listening().unwrap();
        bring(&self.vcenter, &self.ova, &self.wanted(name).await, KEEP_ALIVE, &mut interrupts).await
    }

    async fn items(&self, name: &str) -> Vec<String> {
        self.vcenter.find_library_items(self.sim.library(), name).await.unwrap()
    }

    /// Asserts that exactly one item has this name, that it is complete, and that no session is active.
    async fn assert_whole(&self, name: &str) {
        let items = self.items(name).await;
        assert_eq!(items.len(), 1, "{name}");
        let mut files: Vec<_> = self.vcenter.list_library_item_files(&items[0]).await.unwrap();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["node-disk1.vmdk", "node.ovf"], "{name}");
        let sessions = self.sim.get("/v1/uploads").await;
        let active = |session: &&serde_json::Value| session["state"] == "ACTIVE";
        assert_eq!(sessions["sessions"].as_array().unwrap().iter().find(active), None, "{name}");
    }

    async fn fault(&self, rule: serde_json::Value) {
        self.sim.post("/v1/faults", rule).await;
    }

    /// Waits until a fault rule holds a call.
    async fn held(&self) {
        let held = async || self.sim.get("/v1/faults").await["faults"][0]["held"] == 1;
        poll("a call is held", SOON, || async { held().await.then_some(()) }).await.unwrap();
    }
}

fn sim() -> Option<Sim> {
    Sim::over_vijson("image_import")
}

#[tokio::test]
async fn an_ova_is_imported_once() {
    let Some(bench) = Bench::new(sim()).await else { return };
    let (item, new) = bench.import("node-1").await.unwrap();
    assert!(new);
    bench.assert_whole("node-1").await;
    assert_eq!(bench.import("node-1").await.unwrap(), (item, false));
    let report = bench.bring("node-1").await.unwrap().unwrap();
    assert!(shown(&report, None).contains("layercake/node-1: already imported"), "{}", shown(&report, None));
    let json: serde_json::Value = serde_json::from_str(&shown(&report, Some(Output::Json))).unwrap();
    assert_eq!((&json["imported"], &json["sha256"]), (&json!(false), &json!(bench.ova.sha256)));
}

#[tokio::test]
async fn a_name_of_another_content_is_refused() {
    let Some(mut bench) = Bench::new(sim()).await else { return };
    // The item that the site created doesn't have Layercake's mark.
    let refused = bench.bring("node").await.unwrap_err().to_string();
    assert!(refused.contains("that no import created") && refused.contains("--name"), "{refused}");
    bench.import("node-1").await.unwrap();
    bench.ova =
        pack_node(&bench.folder.path().join("other.ova"), &NODE_OVF.replace("A node", "Another node"));
    let refused = bench.bring("node-1").await.unwrap_err().to_string();
    assert!(
        refused.contains("of another OVA") && refused.contains("govc library.rm layercake/node-1"),
        "{refused}"
    );
    bench.assert_whole("node-1").await;
    bench.assert_whole("node").await;
}

/// Stops an import at call number `skip`. Returns false if the import finished first.
async fn ends_at(bench: &Bench, name: &str, kind: &str, skip: usize) -> bool {
    bench.fault(json!({ "method": "*", "kind": kind, "skip": skip })).await;
    let came_through = tokio::select! {
        done = bench.import(name) => { done.unwrap(); true }
        () = bench.held() => false,
    };
    bench.sim.release().await;
    !came_through
}

async fn a_run_that_ends_at_any_call_is_taken_up(kind: &str) {
    let Some(bench) = Bench::new(sim()).await else { return };
    let mut ended = 0;
    while ends_at(&bench, &format!("{kind}-{ended}"), kind, ended).await {
        let name = format!("{kind}-{ended}");
        bench.import(&name).await.unwrap();
        bench.assert_whole(&name).await;
        assert!(!bench.import(&name).await.unwrap().1, "{name} is there");
        ended += 1;
    }
    assert!(ended > 12, "only {ended} calls were made");
}

#[tokio::test]
async fn a_run_that_ends_before_any_call_is_taken_up() {
    a_run_that_ends_at_any_call_is_taken_up("parkCall").await;
}

#[tokio::test]
async fn a_run_that_ends_after_any_call_is_taken_up() {
    a_run_that_ends_at_any_call_is_taken_up("parkAnswer").await;
}

#[tokio::test]
async fn a_lost_answer_of_any_call_stops_nothing() {
    let Some(bench) = Bench::new(sim()).await else { return };
    for skip in 0..16 {
        let name = format!("lost-{skip}");
        bench.fault(json!({ "method": "*", "kind": "lostAnswer", "skip": skip })).await;
        bench.import(&name).await.unwrap();
        bench.sim.release().await;
        bench.assert_whole(&name).await;
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_begun_again() {
    let Some(bench) = Bench::new(sim()).await else { return };
    bench.fault(json!({ "method": PUT, "kind": "abort", "skip": 1 })).await;
    assert!(bench.import("once").await.unwrap().1);
    bench.assert_whole("once").await;
    bench.sim.release().await;

    bench.fault(json!({ "method": PUT, "kind": "abort", "count": 0 })).await;
    let broken = bench.bring("ever").await.unwrap_err();
    assert!(may_help_again(&broken) && advice(&broken).contains("Run the command again"), "{broken:#}");
    assert_eq!(bench.items("ever").await.len(), 1, "the next run goes on with it");
    bench.sim.release().await;
    assert!(bench.import("ever").await.unwrap().1);
    bench.assert_whole("ever").await;
}

#[tokio::test]
async fn what_vcenter_refuses_leaves_nothing() {
    let Some(bench) = Bench::new(sim()).await else { return };
    // The file changes between verification and upload.
    pack_node(&bench.ova.path, &NODE_OVF.replace("A node", "B node"));
    let refused = format!("{:#}", bench.bring("changed").await.unwrap_err());
    assert!(refused.contains("node.ovf: vCenter refuses the file"), "{refused}");
    assert!(bench.items("changed").await.is_empty());

    bench.sim.put("/v1/privileges", json!({ "missing": ["ContentLibrary.UpdateSession"] })).await;
    let denied = bench.bring("denied").await.unwrap_err();
    assert!(format!("{denied:#}").contains("ContentLibrary.UpdateSession"), "{denied:#}");
    assert!(advice(&denied).contains("docs/vcenter.md"), "{}", advice(&denied));
}

#[tokio::test]
async fn an_ova_whose_disk_is_refused_is_imported_when_it_is_repaired() {
    let Some(mut bench) = Bench::new(sim()).await else { return };
    // Not a stream-optimized VMDK: vCenter rejects it when the upload is complete.
    let disk = [&b"KDMV"[..], &[0; 1020]].concat();
    bench.ova = pack_disk(&bench.folder.path().join("broken.ova"), NODE_OVF, &disk);
    let refused = bench.bring("unit").await.unwrap_err();
    assert!(bench.items("unit").await.is_empty(), "{refused:#}");

    bench.ova = pack_node(&bench.folder.path().join("repaired.ova"), NODE_OVF);
    assert!(bench.bring("unit").await.unwrap().unwrap().imported);
    bench.assert_whole("unit").await;
}

#[tokio::test]
async fn a_long_upload_keeps_its_session() {
    let Some(bench) = Bench::new(sim()).await else { return };
    bench.fault(json!({ "method": PUT, "kind": "holdCall", "skip": 1 })).await;
    let kept = async || {
        let requests = bench.sim.get("/v1/requests").await;
        let kept = &requests["byWire"]["rest"]["POST /api/content/library/item/update-session/{id}?action=keep-alive"];
        kept.as_u64().filter(|count| *count > 2)
    };
    let watching = async {
        poll("the session is kept alive", SOON, kept).await.unwrap();
        bench.sim.release().await;
    };
    let (imported, ()) = tokio::join!(bench.import_with("long", Duration::from_millis(20)), watching);
    assert!(imported.unwrap().1);
    bench.assert_whole("long").await;
}

#[tokio::test]
async fn an_expired_session_is_replaced() {
    let Some(bench) = Bench::new(sim()).await else { return };
    let add = "POST /api/content/library/item/update-session/{id}/file";
    bench.fault(json!({ "method": add, "kind": "holdCall", "skip": 1 })).await;
    let expiring = async {
        bench.held().await;
        bench.sim.post("/v1/uploads/expire", json!({})).await;
        bench.sim.release().await;
    };
    let (imported, ()) = tokio::join!(bench.import("expired"), expiring);
    assert!(imported.unwrap().1);
    bench.assert_whole("expired").await;
}

#[tokio::test]
async fn another_run_that_is_under_way_is_left_alone() {
    let Some(bench) = Bench::new(sim()).await else { return };
    let wanted = bench.wanted("busy").await;
    let FoundItem::Begun(item) = wanted.create(&bench.vcenter).await.unwrap() else { panic!("no item") };
    let session = bench.vcenter.open_update(&item, Uuid::new_v4()).await.unwrap();
    let file = NewFile { name: "slow.vmdk".into(), size: 1 << 30, sha256: "00".repeat(32) };
    let endpoint = bench.vcenter.add_update_file(&session, &file).await.unwrap().endpoint.unwrap();
    let bytes = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Some((Ok(Bytes::from_static(b"slowly")), ()))
    });
    let sent = Arc::new(AtomicU64::new(0));
    let refused = tokio::select! {
        _ = bench.vcenter.upload(&endpoint, file.size, bytes, &sent) => panic!("the upload ended"),
        refused = async {
            let moving = async || (bench.vcenter.update_files(&session).await.unwrap()[0].received > 0).then_some(());
            poll("bytes come", SOON, moving).await.unwrap();
            bench.bring("busy").await
        } => refused.unwrap_err(),
    };
    assert!(refused.is::<OthersWork>(), "{refused:#}");
    assert_eq!(bench.items("busy").await, [item], "it stays");
}

#[tokio::test]
async fn what_was_begun_is_removed_at_an_interrupt() {
    let Some(bench) = Bench::new(sim()).await else { return };
    bench.fault(json!({ "method": PUT, "kind": "parkCall" })).await;
    tokio::select! {
        done = bench.import("begun") => panic!("{done:?}"),
        () = bench.held() => {}
    }
    bench.sim.release().await;
    clean_up(&bench.vcenter, &bench.wanted("begun").await).await;
    assert!(bench.items("begun").await.is_empty());
    // Cleanup doesn't remove complete items.
    bench.import("whole").await.unwrap();
    clean_up(&bench.vcenter, &bench.wanted("whole").await).await;
    bench.assert_whole("whole").await;
}

#[tokio::test]
async fn libraries_that_take_no_items_are_refused() {
    let Some(bench) = Bench::new(Sim::with_subscription("image_import")).await else { return };
    let by_id = find_library(&bench.vcenter, bench.sim.library()).await.unwrap();
    assert_eq!(by_id.name, "layercake");
    for (name, why) in [("subscribed", "subscribed library"), ("nowhere", "has no content library nowhere")] {
        let refused = find_library(&bench.vcenter, name).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_name_of_which_no_object_name_can_be_made_is_refused() {
    for (name, words) in
        [("日本", "no letter a to z"), ("--", "no letter a to z"), ("a/b", "no slash"), ("", "no slash")]
    {
        let error = super::check_name(name.to_owned()).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("--name"), "{error}");
    }
    assert_eq!(super::check_name("Größe 1".to_owned()).unwrap(), "Größe 1");
}
