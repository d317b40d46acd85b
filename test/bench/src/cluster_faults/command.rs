//! Runs `layercake` as a user with a separate home folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::cases::{Case, RunStep, Write};
use super::killer::{self, COMMAND, FAULT, KILLED, NOTES, PROGRAMS};
use crate::proxy::injections::Side;

/// The timeout per command.
const TIMEOUT: Duration = Duration::from_mins(5);

/// A user with a separate home folder.
pub struct User {
    home: PathBuf,
    executable: PathBuf,
    /// The number of commands run so far.
    commands: AtomicUsize,
}

/// A command's result.
pub struct Finished {
    /// True if the command succeeded.
    pub ok: bool,
    /// True if a process killed itself at the given write.
    pub killed: bool,
    /// The writes that the command and its child processes made.
    pub writes: BTreeSet<Write>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl User {
    /// Creates a user with this home folder. Links or copies the current executable to `layercake` in it.
    pub fn new(home: &Path) -> Result<Self> {
        let executable = home.join(COMMAND);
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        // A hard link fails if the folder is on another file system.
        fs::hard_link(&exe, &executable).or_else(|_| fs::copy(&exe, &executable).map(drop))?;
        Ok(Self { home: home.to_owned(), executable, commands: AtomicUsize::new(0) })
    }

    /// Returns a file path in the home folder.
    pub fn path(&self, name: &str) -> String {
        self.home.join(name).display().to_string()
    }

    /// Runs a command while a process is killed at the case's write.
    pub async fn run(&self, step: RunStep, args: &[&str], fault: Option<&Case>) -> Result<Finished> {
        // Background processes keep writing to the notes file that their command got.
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let notes = self.home.join(format!("notes-{number}"));
        fs::write(&notes, "")?;
        let mut command = Command::new(&self.executable);
        command.args(args).env("HOME", &self.home).env("KUBECONFIG", self.home.join("kubeconfig"));
        command.env("LAYERCAKE_CACHE", plane::tools::cache_folder()?).env_remove("XDG_STATE_HOME");
        command.env(NOTES, &notes).kill_on_drop(true);
        if let Some(Case { write, point }) = fault {
            command.env(FAULT, killer::fault(write.program, &write.what, *point));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Background processes write their output to separate files, so the pipes close.
        let output = tokio::time::timeout(TIMEOUT, command.output()).await;
        let output = output.with_context(|| format!("{args:?} takes more than {TIMEOUT:?}"))??;
        let (mut writes, mut killed) = (BTreeSet::new(), false);
        for line in fs::read_to_string(&notes)?.lines() {
            let (program, what) = line.split_once('\t').context("a note without a program")?;
            let program = PROGRAMS.into_iter().find(|known| *known == program).context("another program")?;
            if what == KILLED {
                killed = true;
            } else {
                writes.insert(Write { program, step, side: Side::Api, what: what.to_owned() });
            }
        }
        let [printed, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(Finished { ok: output.status.success(), killed, writes, output: printed, errors })
    }
}
