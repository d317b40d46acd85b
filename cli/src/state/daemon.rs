//! Background processes that outlive the command that starts them, and the files that describe them.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::{create_folder, owner_only};
use crate::state::wait::until;
use crate::terminal::output::say;

/// The timeout for starting a process. A cold start builds the tools, which takes about ten minutes on two cores.
const START: Duration = Duration::from_mins(40);
const LOCK: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_mins(1);
/// The timeout for the process to disappear after SIGKILL. The guard then kills the processes that it started.
const KILL: Duration = Duration::from_secs(10);
/// The timeout of [`Daemon::ended`]. Commands don't run that long.
const YEAR: Duration = Duration::from_hours(24 * 365);
/// The permissions of the files that describe the process.
const OWNER_ONLY: u32 = 0o600;

/// A background process. Its lock, record and log are the files `NAME.lock`, `NAME.json` and `NAME.log` in a folder.
#[derive(Clone, Debug)]
pub struct Daemon {
    folder: PathBuf,
    name: &'static str,
    what: String,
}

impl Daemon {
    /// Creates a handle for a process, which doesn't have to be running. `what` names the process in messages.
    pub fn new(folder: PathBuf, name: &'static str, what: impl Into<String>) -> Self {
        Self { folder, name, what: what.into() }
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    /// Returns the path to the log, which contains the process's output.
    pub fn log(&self) -> PathBuf {
        self.file("log")
    }

    /// Opens the lock file. The process holds the lock as long as it lives, and writes its process ID into the file.
    fn lock_file(&self) -> Result<File> {
        let path = self.file("lock");
        let mut options = File::options();
        let opened = options.create(true).truncate(false).read(true).write(true).mode(OWNER_ONLY).open(&path);
        opened.with_context(|| format!("cannot open {}", path.display()))
    }

    /// Returns the ID of the running process, or `None` if it isn't running or hasn't written its ID yet.
    pub fn holder(&self) -> Result<Option<u32>> {
        if !self.file("lock").exists() {
            return Ok(None);
        }
        let mut lock = self.lock_file()?;
        // With a shared lock, commands that test the file at the same time don't take each other for the process.
        if self.has_lock(lock.try_lock_shared())? {
            return Ok(None);
        }
        let mut text = String::new();
        lock.read_to_string(&mut text)?;
        // If the process has ended meanwhile, its ID may belong to another process now.
        if self.has_lock(lock.try_lock_shared())? {
            return Ok(None);
        }
        // The file is empty until the process that has locked it writes its ID.
        Ok(text.trim().parse().ok())
    }

    /// Returns true if the attempt locked the file, and false if another process holds the lock.
    fn has_lock(&self, attempt: Result<(), TryLockError>) -> Result<bool> {
        match attempt {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock the record of {}", self.what))
            }
        }
    }

    /// Takes the lock for this process until the returned file is closed. Fails if another process holds the lock.
    pub async fn acquire(&self) -> Result<File> {
        create_folder(&self.folder)?;
        let mut lock = self.lock_file()?;
        // `holder` briefly locks the file to test it.
        let held = format!("another process runs {}", self.what);
        until(&held, LOCK, async || self.has_lock(lock.try_lock())).await?;
        lock.set_len(0)?;
        write!(lock, "{}", std::process::id())?;
        self.clear()?;
        Ok(lock)
    }

    /// Writes the record for other processes. It must contain the process ID as `pid`.
    pub fn write(&self, record: &impl Serialize) -> Result<()> {
        owner_only(&self.file("json"), &serde_json::to_vec(record)?)
    }

    pub fn clear(&self) -> Result<()> {
        match fs::remove_file(self.file("json")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove the record of {}", self.what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the record of the running process, or `None` if the process isn't running or hasn't written a record
    /// yet.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(holder) = self.holder()? else { return Ok(None) };
        let record = fs::read(self.file("json")).ok();
        let record = record.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
        // Ignore the record of an earlier process.
        let record = record.filter(|record| record["pid"] == holder);
        Ok(record.and_then(|record| serde_json::from_value(record).ok()))
    }

    /// Starts this program with other arguments in the background and waits until `is_ready` returns true. Returns
    /// false if `given_up` resolves first. Ends the process unless it becomes ready.
    pub async fn start(
        &self,
        arguments: &[String],
        mut is_ready: impl FnMut() -> Result<bool>,
        given_up: impl Future<Output = ()>,
    ) -> Result<bool> {
        create_folder(&self.folder)?;
        let log_path = self.log();
        let log = File::options().create(true).truncate(true).write(true).mode(OWNER_ONLY).open(&log_path);
        let log = log.with_context(|| format!("cannot write {}", log_path.display()))?;
        // `mode` doesn't apply to an existing log.
        log.set_permissions(fs::Permissions::from_mode(OWNER_ONLY))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", self.what))?;
        let process = open_process(child.id())?;
        let ready = until(&self.what, START, async || match child.try_wait()? {
            Some(_) => bail!("{} did not start. {}", self.what, self.reason()),
            None => is_ready(),
        });
        let outcome = tokio::select! {
            ready = ready => ready.map(|()| true),
            () = given_up => Ok(false),
        };
        if let Some(process) = process
            && !matches!(outcome, Ok(true))
        {
            self.end(&process).await?;
        }
        outcome
    }

    /// Waits until the process has ended, and returns an error with the reason. Also returns if the lock can't be read.
    pub async fn ended(&self, process: u32) -> anyhow::Error {
        match until(&self.what, YEAR, async || Ok(self.holder()? != Some(process))).await {
            Ok(()) => anyhow!("{} has ended. {}", self.what, self.reason()),
            Err(error) => error,
        }
    }

    /// Returns the last error in the log. If there isn't one, returns the log's path.
    fn reason(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let last = log.lines().rev().find_map(|line| line.strip_prefix("error: "));
        let path = self.log();
        last.map_or_else(|| format!("Its log is {}", path.display()), |last| format!("Its log says: {last}"))
    }

    /// Stops the process, even while it is starting. Returns false if the process isn't running.
    pub async fn stop(&self) -> Result<bool> {
        let Some(process) = self.holder()? else { return Ok(false) };
        let Some(handle) = open_process(process)? else { return Ok(false) };
        // If the process ended before it was opened, another process may have got its ID.
        if self.holder()? != Some(process) {
            return Ok(false);
        }
        self.end(&handle).await?;
        Ok(true)
    }

    /// Terminates the process and waits until it has ended. Kills it after [`STOP`].
    async fn end(&self, process: &OwnedFd) -> Result<()> {
        match pidfd_send_signal(process, Signal::TERM) {
            Err(Errno::SRCH) => return Ok(()),
            sent => sent.with_context(|| format!("cannot stop {}", self.what))?,
        }
        let what = format!("stopping {}", self.what);
        if until(&what, STOP, async || Ok(self.holder()?.is_none())).await.is_ok() {
            return Ok(());
        }
        say!("{} does not end by itself and is killed", self.what);
        match pidfd_send_signal(process, Signal::KILL) {
            Err(Errno::SRCH) => {}
            sent => sent.with_context(|| format!("cannot kill {}", self.what))?,
        }
        until(&what, KILL, async || Ok(self.holder()?.is_none())).await
    }
}

/// Returns a handle that names this process even after its ID is reused, or `None` if the process doesn't exist.
fn open_process(id: u32) -> Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => Ok(None),
        opened => opened.map(Some).with_context(|| format!("cannot open process {id}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_record_counts_while_its_process_runs() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::new(folder.path().join("new"), "process", "the site");
        assert_eq!(daemon.holder().unwrap(), None);
        assert!(!daemon.stop().await.unwrap());
        let lock = daemon.acquire().await.unwrap();
        assert_eq!(daemon.holder().unwrap(), Some(std::process::id()));
        assert_eq!(daemon.read::<Value>().unwrap(), None);
        daemon.write(&json!({"pid": std::process::id(), "a": 1})).unwrap();
        assert_eq!(daemon.read::<Value>().unwrap().unwrap()["a"], 1);
        let refused = daemon.acquire().await.unwrap_err().to_string();
        assert!(refused.contains("another process runs the site"), "{refused}");
        daemon.write(&json!({"pid": 1})).unwrap();
        assert_eq!(daemon.read::<Value>().unwrap(), None, "the record of another process");
        let mut ended = std::pin::pin!(daemon.ended(std::process::id()));
        assert!(futures::poll!(&mut ended).is_pending());
        drop(lock);
        let other_command = daemon.lock_file().unwrap();
        other_command.try_lock_shared().unwrap();
        assert_eq!(daemon.holder().unwrap(), None, "another command tests the lock, too");
        drop(other_command);
        let ended = ended.await.to_string();
        assert!(ended.starts_with("the site has ended. Its log is "), "{ended}");
    }
}
