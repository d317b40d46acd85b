//! Replays recorded responses of real vCenters to the client.
//!
//! Set `LAYERCAKE_RECORDINGS` to the recordings folder. Without it, each test prints that it is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod decoding;
mod inventories;
mod page;
mod recording;
mod server;
mod stream;
mod wire_check;

use std::io::Write as _;
use std::path::Path;

use replay::RecordingsFolder;
use replay::folder::{VARIABLE, from_environment};

/// Returns the recordings. If the variable isn't set, prints a line on stderr and returns `None`.
fn recordings(test: &str) -> Option<RecordingsFolder> {
    let Some(folder) = from_environment() else {
        // println! output isn't shown for passing tests.
        drop(writeln!(std::io::stderr(), "skipped: {test}: {VARIABLE} names no folder of recordings"));
        return None;
    };
    Some(RecordingsFolder::read(&folder).unwrap_or_else(|error| panic!("{error:#}")))
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
