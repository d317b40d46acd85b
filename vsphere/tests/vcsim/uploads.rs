//! Tests creating and filling library items, in both Automation API forms.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use support::vcsim::{Sim, empty_disk};
use uuid::Uuid;
use vsphere::automation::{FileStatus, NewFile, NewItem, UpdateState, Validation};
use vsphere::{Client, Kind, PathStyle};

use crate::automation::{STYLES, styled};

const SOON: Duration = Duration::from_mins(1);
/// A descriptor without disks, which is a complete item by itself.
const OVF: &str = r#"<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1"><References/></Envelope>"#;
/// A descriptor with one disk.
const WITH_DISK: &str = r#"<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1">
<References><File ovf:href="disk.vmdk" ovf:id="file1"/></References></Envelope>"#;

fn item(sim: &Sim, name: &str) -> NewItem {
    NewItem {
        library_id: sim.library().to_owned(),
        name: name.to_owned(),
        description: "of a test".to_owned(),
        kind: "ovf".to_owned(),
    }
}

fn file(name: &str, content: &[u8]) -> NewFile {
    let digest = Sha256::digest(content);
    let sha256 = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    NewFile { name: name.to_owned(), size: content.len() as u64, sha256 }
}

/// Announces a file and uploads its bytes in chunks.
async fn push(client: &Client, session: &str, name: &str, content: &[u8]) -> vsphere::Result<()> {
    let added = client.add_update_file(session, &file(name, content)).await?;
    assert_eq!(added.status, FileStatus::WaitingForTransfer);
    let chunks: Vec<io::Result<Bytes>> =
        content.chunks(300).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
    let sent = Arc::new(AtomicU64::new(0));
    let done =
        client.upload(&added.endpoint.unwrap(), content.len() as u64, stream::iter(chunks), &sent).await;
    if done.is_ok() {
        assert_eq!(sent.load(Ordering::Relaxed), content.len() as u64);
    }
    done
}

async fn status(client: &Client, session: &str, name: &str) -> FileStatus {
    let files = client.update_files(session).await.unwrap();
    files.into_iter().find(|file| file.name == name).unwrap().status
}

fn is(error: &vsphere::Error, fault: &str) -> bool {
    error.fault().is_some_and(|it| it.type_name == fault)
}

async fn an_item_is_filled_by_a_session(sim: Sim) {
    for style in STYLES {
        let client = styled(&sim, style).await;
        let id =
            client.create_library_item(&item(&sim, &format!("{style:?}")), Uuid::new_v4()).await.unwrap();
        let session = client.open_update(&id, Uuid::new_v4()).await.unwrap();
        assert_eq!(client.update_sessions(&id).await.unwrap(), std::slice::from_ref(&session));
        client.keep_update(&session, 7).await.unwrap();
        let early = client.complete_update(&session, SOON).await.unwrap_err();
        assert!(is(&early, "NotAllowedInCurrentState"), "{early:?}");

        push(&client, &session, "node.ovf", WITH_DISK.as_bytes()).await.unwrap();
        assert_eq!(client.validate_update(&session).await.unwrap().missing, ["disk.vmdk"]);
        push(&client, &session, "disk.vmdk", &empty_disk()).await.unwrap();
        assert_eq!(client.validate_update(&session).await.unwrap(), Validation::default());
        assert!(
            client.list_library_item_files(&id).await.unwrap().is_empty(),
            "the files are not listed before the session is complete"
        );
        client.complete_update(&session, SOON).await.unwrap();
        assert_eq!(client.update_session(&session).await.unwrap().state, UpdateState::Done);
        let mut files = client.list_library_item_files(&id).await.unwrap();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(files.iter().map(|file| &*file.name).collect::<Vec<_>>(), ["disk.vmdk", "node.ovf"]);
        client.delete_update(&session).await.unwrap();
        assert!(client.update_session(&session).await.unwrap_err().is_not_found());
        assert!(client.update_sessions(&id).await.unwrap().is_empty());
        client.delete_library_item(&id).await.unwrap();
        assert!(client.list_library_item_files(&id).await.unwrap_err().is_not_found());
    }
}

async fn a_lost_answer_makes_nothing_twice(sim: Sim) {
    for style in STYLES {
        let client = styled(&sim, style).await;
        client.library(sim.library()).await.unwrap();
        let rule = |path: &str| json!({ "method": format!("POST {path}"), "kind": "lostAnswer" });
        let root = if style == PathStyle::Api { "/api" } else { "/com/vmware" };
        let wanted = item(&sim, &format!("lost-{style:?}"));
        sim.post("/v1/faults", rule(&format!("{root}/content/library/item"))).await;
        let id = client.create_library_item(&wanted, Uuid::new_v4()).await.unwrap();
        sim.post("/v1/faults", rule(&format!("{root}/content/library/item/update-session"))).await;
        let session = client.open_update(&id, Uuid::new_v4()).await.unwrap();
        assert_eq!(client.update_sessions(&id).await.unwrap(), std::slice::from_ref(&session));
        let hits: Vec<Json> = sim.get("/v1/faults").await["faults"].as_array().unwrap().clone();
        assert!(hits.iter().all(|rule| rule["hits"] == 1), "{hits:?}");
        sim.release().await;

        let taken = client.create_library_item(&wanted, Uuid::new_v4()).await.unwrap_err();
        assert!(matches!(taken.kind(), Kind::DuplicateName { .. }), "{taken:?}");
        let busy = client.open_update(&id, Uuid::new_v4()).await.unwrap_err();
        assert!(is(&busy, "ResourceBusy"), "{busy:?}");
        client.cancel_update(&session).await.unwrap();
        assert_eq!(client.update_session(&session).await.unwrap().state, UpdateState::Canceled);
        client.open_update(&id, Uuid::new_v4()).await.unwrap();
    }
}

async fn what_arrives_in_part_is_no_file(sim: Sim) {
    let client = styled(&sim, PathStyle::Api).await;
    let id = client.create_library_item(&item(&sim, "broken"), Uuid::new_v4()).await.unwrap();
    let session = client.open_update(&id, Uuid::new_v4()).await.unwrap();
    sim.post("/v1/faults", json!({ "method": "PUT /cls/data", "kind": "abort" })).await;
    let cut = push(&client, &session, "node.ovf", OVF.as_bytes()).await.unwrap_err();
    assert!(cut.outcome_unknown() && cut.retryable(), "{cut:?}");
    assert_eq!(status(&client, &session, "node.ovf").await, FileStatus::Error);
    let refused = client.complete_update(&session, SOON).await.unwrap_err();
    assert!(is(&refused, "NotAllowedInCurrentState"), "{refused:?}");

    // The content differs from the announced digest: the upload succeeds, but vCenter rejects the file.
    let added = client
        .add_update_file(&session, &NewFile { sha256: "00".repeat(32), ..file("node.ovf", OVF.as_bytes()) })
        .await;
    let bytes = stream::iter([Ok(Bytes::from(OVF))]);
    let sent = Arc::new(AtomicU64::new(0));
    client.upload(&added.unwrap().endpoint.unwrap(), OVF.len() as u64, bytes, &sent).await.unwrap();
    assert_eq!(status(&client, &session, "node.ovf").await, FileStatus::Error);

    // A new announcement replaces the broken file.
    push(&client, &session, "node.ovf", OVF.as_bytes()).await.unwrap();
    assert_eq!(status(&client, &session, "node.ovf").await, FileStatus::Ready);
    client.complete_update(&session, SOON).await.unwrap();
}

async fn a_session_without_activity_expires(sim: Sim) {
    let client = styled(&sim, PathStyle::Api).await;
    let id = client.create_library_item(&item(&sim, "idle"), Uuid::new_v4()).await.unwrap();
    let session = client.open_update(&id, Uuid::new_v4()).await.unwrap();
    sim.post("/v1/uploads/expire", json!({})).await;
    assert!(client.keep_update(&session, 1).await.unwrap_err().is_not_found());
    client.open_update(&id, Uuid::new_v4()).await.unwrap();
}

async fn an_endpoint_without_tls_gets_no_bytes(sim: Sim) {
    let client = styled(&sim, PathStyle::Api).await;
    let sent = Arc::new(AtomicU64::new(0));
    let bytes = stream::iter([Ok(Bytes::from("x"))]);
    let endpoint = format!("http://{}/cls/data/x/y", sim.address());
    let refused = client.upload(&endpoint, 1, bytes, &sent).await.unwrap_err();
    assert!(matches!(refused.kind(), Kind::Unexpected { .. }), "{refused:?}");
    assert_eq!(sent.load(Ordering::Relaxed), 0);
}

support::on_both_wires!(
    an_item_is_filled_by_a_session,
    a_lost_answer_makes_nothing_twice,
    what_arrives_in_part_is_no_file,
    a_session_without_activity_expires,
    an_endpoint_without_tls_gets_no_bytes,
);
