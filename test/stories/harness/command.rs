//! Runs this build's `layercake` command as a user does.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the executable, which contains all programs and the guard.
pub fn exe() -> &'static Path {
    env!("CARGO_BIN_EXE_layercake").as_ref()
}

/// Returns a command with these arguments and an empty standard input.
pub fn layercake(args: &[&str]) -> Command {
    let mut command = Command::new(exe());
    command.args(args).stdin(Stdio::null());
    command
}

/// Returns standard output and standard error as text.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
