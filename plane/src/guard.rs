//! The guard: a small process that outlives its parent just long enough to clean up after it.
//!
//! The guard reads a pipe whose other end only the parent holds. The pipe closes however the parent ends: by itself,
//! by a panic or by SIGKILL. Then the guard kills every process with the stack's mark, and deletes the folder of an
//! ephemeral stack.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use crate::error::{OperationContext, Result};
use crate::members;
use crate::stack::{MARK, NAME, StackIdentity};

/// The `argv[0]` that makes a multi-call executable act as a guard.
pub const ARG0: &str = "layercake-guard";

/// A child process that ends a stack's processes and deletes its folder when the stack's own process ends. Start it
/// before the stack's processes. Dropping the guard triggers this cleanup, but doesn't wait until it is done.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts the stack's guard. The `main` of `exe` must call [`main`] if its `argv[0]` is [`ARG0`].
    pub fn start(exe: &Path, stack: &StackIdentity) -> Result<Self> {
        let mut command = Command::new(exe);
        command.arg0(ARG0).arg(stack.id());
        if stack.is_ephemeral() {
            command.arg(stack.folder());
        }
        let child = command
            .env_remove(MARK)
            .env_remove(NAME)
            // Neither terminal signals nor the working folder must interfere with the cleanup.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .doing(|| format!("start the guard ({})", exe.display()))?;
        Ok(Self { child })
    }

    /// Triggers the cleanup, and blocks until the killed processes are gone.
    pub fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait().map(drop).doing(|| "wait for the guard".to_owned())
    }
}

/// Runs the guard. The arguments are `argv[0]`, the stack ID, and the folder to delete if the stack is ephemeral.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let mut args = args.into_iter().skip(1);
    let Some(stack) = args.next().and_then(|id| id.into_string().ok()).filter(|id| !id.is_empty()) else {
        eprintln!("only layercake itself starts {ARG0}, with the id of a stack");
        return ExitCode::from(2);
    };
    // The parent never writes to the pipe, so the read returns when the parent ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    members::end(|mark| mark == stack.as_bytes());
    if let Some(folder) = args.next() {
        remove(Path::new(&folder));
        // A child that the parent was just starting may carry the mark only now.
        members::end(|mark| mark == stack.as_bytes());
        remove(Path::new(&folder));
    }
    ExitCode::SUCCESS
}

fn remove(folder: &Path) {
    for _ in 0..10 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(50));
            }
            _ => break,
        }
    }
}
