//! Machines wait their turn, with an API server that takes what they say meanwhile.

use std::sync::Arc;

use kit::Runtime;
use serde_json::json;
use support::api_server::{refusal, server};
use support::vcsim::Sim;
use support::wait::within;
use tokio::sync::mpsc;

use crate::testing::fixtures;
use crate::testing::vcsim::vcenter;
use crate::virtualmachine::observe::context;
use crate::virtualmachine::{ROOM, turn};

#[tokio::test]
async fn who_waits_long_for_room_is_told_and_comes_in_when_there_is_some() {
    let name = "who_waits_long_for_room_is_told_and_comes_in_when_there_is_some";
    let Some(sim) = Sim::start(name) else { return };
    let vcenter = vcenter(&sim).await;
    let (told, mut sayings) = mpsc::unbounded_channel();
    let (client, _) = server(move |request| {
        if !request.line().starts_with("PATCH ") {
            return refusal(404, "NotFound");
        }
        told.send(request.body.clone()).unwrap();
        (200, json!(fixtures::virtual_machine()))
    });
    let started = Runtime::detached(client);
    let ctx = context(&started, &vcenter);
    let vm = fixtures::virtual_machine();
    let (room, waited) = turn(&vm, &ctx).await.unwrap();
    assert!(room.is_some() && !waited, "there is room");

    drop(room);
    let all = Arc::clone(&ctx.room).acquire_many_owned(ROOM.try_into().unwrap()).await.unwrap();
    let mut next = Box::pin(turn(&vm, &ctx));
    let said = tokio::select! {
        _ = &mut next => panic!("there is no room"),
        said = within("a word", sayings.recv()) => said.unwrap().to_string(),
    };
    assert!(said.contains("waits for its turn") && said.contains("WaitingForVCenter"), "{said}");
    drop(all);
    let (room, waited) = within("the turn", next).await.unwrap();
    assert!(room.is_some() && waited);
    started.shutdown.cancel();
}
