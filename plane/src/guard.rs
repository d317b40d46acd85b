//! The guard: a small process that outlives its parent by just long enough to clean up after it.
//!
//! It reads a pipe whose other end only its parent holds. However the parent ends (by itself, by a panic, by
//! `kill -9`), the pipe closes, and the guard kills every process that carries the stack's mark and removes the
//! stack's folder if it is ephemeral.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::members;
use crate::stack::{MARK, NAME, Stack};

/// The name by which a program that can be a guard is called to be one.
pub const ARG0: &str = "layercake-guard";

/// The guard of one stack, to be started before any of its processes. It cleans up when this is dropped, too, but
/// nobody waits for it then.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts `exe`, whose `main` calls [`main`] when it is called [`ARG0`], as the guard of the stack.
    pub fn start(exe: &Path, stack: &Stack) -> Result<Self> {
        let mut command = Command::new(exe);
        command.arg0(ARG0).arg(stack.id());
        if stack.is_ephemeral() {
            command.arg(stack.folder());
        }
        let child = command
            .env_remove(MARK)
            .env_remove(NAME)
            // Neither the terminal's signals nor a working folder shall keep it from its task.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .doing(|| format!("start the guard ({})", exe.display()))?;
        Ok(Self { child })
    }

    /// Has the guard clean up now, and waits until it has. Blocks for as long as killed processes take to go.
    pub fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait().map(drop).doing(|| "wait for the guard".to_owned())
    }
}

/// The guard's entry: the arguments are a name, the stack's id, and the folder to remove if it is ephemeral.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let mut args = args.into_iter().skip(1);
    let Some(stack) = args.next().and_then(|id| id.into_string().ok()).filter(|id| !id.is_empty()) else {
        eprintln!("only layercake itself starts {ARG0}, with the id of a stack");
        return ExitCode::from(2);
    };
    // Nothing is ever written to the pipe: what ends this read is the parent's end.
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
