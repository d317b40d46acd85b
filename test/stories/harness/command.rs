//! The `layercake` command of this build, as a user runs it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The executable that is all of our programs and the guard.
pub fn exe() -> &'static Path {
    env!("CARGO_BIN_EXE_layercake").as_ref()
}

/// Returns the command with these arguments and an empty standard input.
pub fn layercake(args: &[&str]) -> Command {
    let mut command = Command::new(exe());
    command.args(args).stdin(Stdio::null());
    command
}

/// Returns the texts on standard output and standard error.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
