//! The `layercake` command of this build, as a user runs it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The executable that is all of our programs and the guard.
pub fn exe() -> &'static Path {
    env!("CARGO_BIN_EXE_layercake").as_ref()
}

/// The command with these arguments; it reads nothing.
pub fn layercake(args: &[&str]) -> Command {
    let mut command = Command::new(exe());
    command.args(args).stdin(Stdio::null());
    command
}

/// What a command printed on its two streams.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
