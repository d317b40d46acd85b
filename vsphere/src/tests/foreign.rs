//! Tests with other servers whose URLs vCenter's responses contain, such as hosts that accept uploads.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;

use super::fake::{Fake, Reply};
use crate::{Client, Kind, WireKind};

async fn upload(client: &Client, url: &str) -> crate::Result<()> {
    let bytes = stream::iter([io::Result::Ok(Bytes::from_static(b"disk"))]);
    client.upload(url, 4, bytes, &Arc::default()).await
}

async fn vcenters_session_stays_with_vcenter(wire: WireKind) {
    let answer = |text: &'static str| move |_: &_| Some(Reply::Body(200, text.to_owned()));
    let vcenter =
        Fake::start(wire, |seen| (seen.call() == "x.ovf").then(|| Reply::Body(200, "own".into()))).await;
    let host = Fake::start(WireKind::ViJson, answer("foreign")).await;
    let client = vcenter.client().await;

    assert_eq!(client.fetch(&format!("{}/ticket/x.ovf", vcenter.base()), 100).await.unwrap(), b"own");
    let fetched = vcenter.seen().into_iter().find(|seen| seen.call() == "x.ovf").unwrap();
    assert!(!fetched.session.is_empty(), "vCenter's own endpoint wants the session");

    let url = format!("{}/ticket/x.ovf", host.base());
    assert_eq!(client.fetch(&url, 100).await.unwrap(), b"foreign");
    upload(&client, &url).await.unwrap();
    let seen = host.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert_eq!(seen.session, "", "{} {}", seen.method, seen.path);
        assert!(!seen.head.to_ascii_lowercase().contains("token-1"), "{}", seen.head);
        assert!(!seen.head.to_ascii_lowercase().contains("cookie"), "{}", seen.head);
    }
}

async fn a_file_that_is_too_large_is_not_read(wire: WireKind) {
    let vcenter = Fake::start(wire, |_| None).await;
    let host = Fake::start(WireKind::ViJson, |_| Some(Reply::Body(200, "x".repeat(200_000)))).await;
    let client = vcenter.client().await;
    let error = client.fetch(&format!("{}/x.ovf", host.base()), 100_000).await.unwrap_err();
    assert_eq!(error.kind(), &Kind::TooLarge { limit: 100_000 });
    assert!(!error.retryable(), "it is as large the next time");
}

on_both_wires!(vcenters_session_stays_with_vcenter, a_file_that_is_too_large_is_not_read,);
