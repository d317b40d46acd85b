//! Finds the processes in a stack by the mark in their environment.
//!
//! Parent process IDs don't work: when a parent dies, init adopts its children, but the mark stays.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::mark::{MARK, NAME};

/// A process in a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackProcess {
    pub pid: u32,
    /// The process name in the stack. Child processes inherit it.
    pub name: String,
}

/// Returns the running processes in the stack with this ID, except this process.
pub fn of(stack: &str) -> Vec<StackProcess> {
    marked(|mark| mark == stack.as_bytes())
}

/// Kills all processes whose mark `is_meant` accepts, until two scans in a row don't find any. Blocks for at most 30 s.
pub fn end(is_meant: impl Fn(&[u8]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut quiet_looks = 0;
    while quiet_looks < 2 && Instant::now() < deadline {
        let members = marked(&is_meant);
        quiet_looks = if members.is_empty() { quiet_looks + 1 } else { 0 };
        for member in members {
            if let Some(pid) = Pid::from_raw(member.pid.cast_signed()) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn marked(is_meant: impl Fn(&[u8]) -> bool) -> Vec<StackProcess> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok().filter(|pid| *pid != own)?;
            // A zombie's environment is empty, and other users' environments are unreadable.
            let environment =
                fs::read(PathBuf::from("/proc").join(entry.file_name()).join("environ")).ok()?;
            is_meant(variable(&environment, MARK)?).then(|| StackProcess {
                pid,
                name: String::from_utf8_lossy(variable(&environment, NAME).unwrap_or_default()).into_owned(),
            })
        })
        .collect()
}

fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environment.split(|byte| *byte == 0).find_map(|variable| {
        variable.strip_prefix(std::ffi::OsStr::new(name).as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Command;
    use crate::stack::StackIdentity;
    use std::path::Path;

    #[tokio::test]
    async fn members_are_known_by_their_mark() {
        let stack = StackIdentity::ephemeral().unwrap();
        let sleeper = Command::new(&stack, "sleeper", Path::new("/bin/sleep")).unwrap().arg("1000");
        let process = sleeper.spawn().unwrap();
        // `spawn` returns when the new program's files are open, shortly before its environment can be read.
        let marked = async {
            while of(stack.id()).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), marked).await.unwrap();
        assert_eq!(of(stack.id()), [StackProcess { pid: process.pid(), name: "sleeper".to_owned() }]);
        process.kill().await;
        assert_eq!(of(stack.id()), []);
        fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[test]
    fn a_variable_is_matched_whole() {
        assert_eq!(variable(b"A=1\0AB=2\0", "AB"), Some(&b"2"[..]));
        assert_eq!(variable(b"AB=2\0", "A"), None);
    }
}
