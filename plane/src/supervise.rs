//! Restarts processes that exit by themselves, as a kubelet does.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::process::{self, Command, Process};
use crate::{space, wait};

/// The delay before the first restart. It doubles with each restart until the process has run for [`STABLE_FOR`].
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// The run time that resets the restart delay, and the time after which [`Supervised::ending`] ignores an exit.
const STABLE_FOR: Duration = Duration::from_mins(1);
/// The number of exits after which a process is no longer expected to become ready.
const EARLY_ENDS: u32 = 3;

/// The number of exits from which [`Supervised::ending`] reports a process.
const OFTEN: u32 = 2;
/// The number of lines at the end of the log to search for the reason of an exit.
const REASON_LINES: usize = 30;
/// The maximum length of the reason from the log, in characters.
const REASON_CHARS: usize = 200;

/// Returns the delays before successive restarts.
fn delays() -> Peekable<ExponentialBackoff> {
    let delays = ExponentialBuilder::default().with_min_delay(FIRST_DELAY).with_max_delay(LONGEST_DELAY);
    delays.without_max_times().build().peekable()
}

/// The state of a supervised process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessState {
    /// The process ID, or `None` while the process isn't running.
    pub pid: Option<u32>,
    /// The number of successful starts.
    pub starts: u32,
    /// The number of unrequested exits and failed restarts.
    pub failures: u32,
    /// The status of the last unrequested exit, or the error of the last failed restart.
    pub last_end: Option<String>,
    /// The time of the last unrequested exit or failed restart.
    pub ended_at: Option<Instant>,
    /// The log file size in bytes at the last start.
    pub log_from: u64,
}

/// A process that keeps exiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub name: String,
    /// The number of unrequested exits and failed restarts.
    pub times: u32,
    /// The last exit status, followed by the reason if it is known.
    pub reason: String,
}

enum Order {
    Kill,
    Start,
    Stop(Duration),
}

/// A process that is restarted until it is stopped.
#[derive(Debug)]
pub struct Supervised {
    name: String,
    log: PathBuf,
    orders: mpsc::UnboundedSender<Order>,
    state: watch::Receiver<ProcessState>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Supervised {
    /// Starts the process. Dropping the returned value kills the process.
    pub fn start(command: Command) -> Result<Self> {
        let process = command.spawn()?;
        let (orders, received) = mpsc::unbounded_channel();
        let (state, watched) = watch::channel(ProcessState {
            pid: Some(process.pid()),
            starts: 1,
            log_from: process.log_from(),
            ..ProcessState::default()
        });
        let (name, log) = (command.name().to_owned(), command.log().to_owned());
        let keeper = Keeper { command, orders: received, state, delays: delays() };
        let keeper = Mutex::new(Some(tokio::spawn(keeper.keep(process, Instant::now()))));
        Ok(Self { name, log, orders, state: watched, keeper })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path to the log file, which all restarts append to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the current state.
    pub fn state(&self) -> ProcessState {
        self.state.borrow().clone()
    }

    /// Returns a receiver that observes state changes.
    pub fn watch(&self) -> watch::Receiver<ProcessState> {
        self.state.clone()
    }

    /// Returns the process ID, or `None` if the process isn't running.
    pub fn pid(&self) -> Option<u32> {
        self.state.borrow().pid
    }

    /// Returns the last exit and its reason if the process has exited at least twice, most recently within the last
    /// minute. Otherwise, returns `None`.
    pub fn ending(&self) -> Option<Ending> {
        let ProcessState { failures, last_end, ended_at, log_from, .. } = self.state();
        if failures < OFTEN || ended_at?.elapsed() > STABLE_FOR {
            return None;
        }
        let reason = reason(&self.log, log_from).map(|reason| format!(": {reason}")).unwrap_or_default();
        let how = last_end.unwrap_or_default();
        Some(Ending { name: self.name.clone(), times: failures, reason: format!("{how}{reason}") })
    }

    /// Kills the process with SIGKILL. It stays dead until [`Self::revive`].
    pub async fn kill(&self) {
        let _ = self.orders.send(Order::Kill);
        let _ = self.watch().wait_for(|state| state.pid.is_none()).await;
    }

    /// Starts the process after [`Self::kill`], or at once if a restart is pending.
    pub async fn revive(&self) {
        let _ = self.orders.send(Order::Start);
        let _ = self.watch().wait_for(|state| state.pid.is_some()).await;
    }

    /// Stops the process for good: sends SIGTERM, and SIGKILL after `grace`. A `grace` of zero sends SIGKILL at once.
    pub async fn stop(&self, grace: Duration) {
        let _ = self.orders.send(Order::Stop(grace));
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper {
            let _ = keeper.await;
        }
    }

    /// Waits until `ready` returns `Ok`, for at most `limit`. Fails early if the process's port is taken or the process
    /// keeps exiting. `what` is the unmet condition in errors, as in "etcd is not ready".
    pub async fn until<T>(
        &self,
        what: &str,
        limit: Duration,
        ready: impl AsyncFnMut() -> Result<T, String>,
    ) -> Result<T> {
        wait::until_or(what, limit, ready, self.given_up()).await
    }

    /// Waits until the process isn't expected to become ready, and returns the reason: its port is taken, it keeps
    /// exiting, or it was stopped.
    pub async fn given_up(&self) -> Error {
        let mut state = self.watch();
        let first = state.borrow().clone();
        // Don't count failures that the process has recovered from.
        let before = if first.pid.is_some() { first.failures } else { first.failures.saturating_sub(1) };
        loop {
            let now = state.borrow_and_update().clone();
            if now.failures > before {
                let status = now.last_end.unwrap_or_default();
                let error = process::ended_early(&self.name, &self.log, now.log_from, &status);
                if matches!(error, Error::PortTaken { .. }) || now.failures >= before + EARLY_ENDS {
                    return error;
                }
            }
            if state.changed().await.is_err() {
                return process::ended_early(&self.name, &self.log, now.log_from, "stopped");
            }
        }
    }
}

/// Returns the likely reason for an exit: a full disk, even if the process couldn't log that, or the last line of its log
/// from byte `from` on.
fn reason(log: &Path, from: u64) -> Option<String> {
    let folder = log.parent()?;
    if space::free_bytes(folder).is_ok_and(|free| free < space::FULL_BYTES) {
        return Some(format!("no space left on the file system of {}", folder.display()));
    }
    let tail = process::tail(log, from, REASON_LINES);
    let full = tail.lines().any(|line| line.contains("no space left on device"));
    let last = tail.lines().rev().find(|line| !line.trim().is_empty());
    if full {
        Some("no space left on device".to_owned())
    } else {
        last.map(|line| line.chars().take(REASON_CHARS).collect())
    }
}

struct Keeper {
    command: Command,
    orders: mpsc::UnboundedReceiver<Order>,
    state: watch::Sender<ProcessState>,
    delays: Peekable<ExponentialBackoff>,
}

impl Keeper {
    /// Keeps the process running, which has run since `started`.
    async fn keep(mut self, first: Process, started: Instant) {
        let mut process = Some((first, started));
        while let Some((running, since)) = process.take() {
            let is_held = tokio::select! {
                status = running.wait() => {
                    self.ended(&status.to_string());
                    false
                }
                order = self.orders.recv() => match order {
                    Some(Order::Start) => {
                        process = Some((running, since));
                        continue;
                    }
                    Some(Order::Kill) => {
                        running.kill().await;
                        self.state.send_modify(|state| state.pid = None);
                        true
                    }
                    Some(Order::Stop(grace)) if !grace.is_zero() => return running.stop(grace).await,
                    Some(Order::Stop(_)) | None => return running.kill().await,
                },
            };
            if since.elapsed() >= STABLE_FOR {
                self.delays = delays();
            }
            process = self.restarted(is_held).await.map(|process| (process, Instant::now()));
        }
    }

    fn ended(&self, how: &str) {
        let name = self.command.name();
        tracing::warn!(name, how, log = %self.command.log().display(), "a process of the stack has exited");
        self.state.send_modify(|state| {
            state.pid = None;
            state.failures += 1;
            state.last_end = Some(how.to_owned());
            state.ended_at = Some(Instant::now());
        });
    }

    /// Restarts the process after its delay, or earlier if an order to start it arrives. If `is_held` is true, only an
    /// order restarts it. Returns `None` if an order stops the process.
    async fn restarted(&mut self, mut is_held: bool) -> Option<Process> {
        loop {
            let delay = self.delays.peek().copied().unwrap_or(LONGEST_DELAY);
            let order = tokio::select! {
                order = self.orders.recv() => order,
                () = tokio::time::sleep(delay), if !is_held => Some(Order::Start),
            };
            match order {
                Some(Order::Kill) => is_held = true,
                Some(Order::Stop(_)) | None => return None,
                Some(Order::Start) => {
                    if !is_held {
                        self.delays.next();
                    }
                    match self.command.spawn() {
                        Ok(process) => {
                            self.state.send_modify(|state| {
                                state.pid = Some(process.pid());
                                state.starts += 1;
                                state.log_from = process.log_from();
                            });
                            return Some(process);
                        }
                        Err(error) => {
                            self.ended(&error.to_string());
                            is_held = false;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::StackIdentity;
    use rustix::process::{Pid, Signal, kill_process};

    fn sleeper(stack: &StackIdentity) -> Supervised {
        let command = Command::new(stack, "sleeper", Path::new("/bin/sleep")).unwrap().arg("1000");
        Supervised::start(command).unwrap()
    }

    #[tokio::test]
    async fn a_process_that_dies_is_started_again() {
        let stack = StackIdentity::ephemeral().unwrap();
        let supervised = sleeper(&stack);
        let pid = supervised.pid().unwrap();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        let mut watch = supervised.watch();
        let state = watch.wait_for(|state| state.starts == 2).await.unwrap().clone();
        assert_ne!(state.pid, Some(pid));
        assert_eq!(state.failures, 1);
        supervised.stop(Duration::ZERO).await;
        assert_eq!(crate::members::of(stack.id()), []);
        std::fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[tokio::test]
    async fn a_killed_process_stays_dead_until_it_is_revived() {
        let stack = StackIdentity::ephemeral().unwrap();
        let supervised = sleeper(&stack);
        supervised.kill().await;
        assert_eq!(crate::members::of(stack.id()), []);
        assert_eq!(supervised.state().failures, 0);
        supervised.revive().await;
        assert_eq!(supervised.state().starts, 2);
        supervised.stop(Duration::from_secs(5)).await;
        assert_eq!(crate::members::of(stack.id()), []);
        std::fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[tokio::test]
    async fn reviving_a_running_process_keeps_its_run_time() {
        let stack = StackIdentity::ephemeral().unwrap();
        let command = Command::new(&stack, "sleeper", Path::new("/bin/sleep")).unwrap().arg("1000");
        let process = command.spawn().unwrap();
        let pid = process.pid();
        let (orders, received) = mpsc::unbounded_channel();
        let (state, mut watched) = watch::channel(ProcessState::default());
        // Only a process that has run for long is restarted earlier.
        let hour = Duration::from_hours(1);
        let delays = ExponentialBuilder::default().with_min_delay(hour).with_max_delay(hour);
        let delays = delays.without_max_times().build().peekable();
        let keeper = Keeper { command, orders: received, state, delays };
        let _ = orders.send(Order::Start);
        let keeper = tokio::spawn(keeper.keep(process, Instant::now() - STABLE_FOR));
        tokio::task::yield_now().await;
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        let restarted = watched.wait_for(|state| state.starts == 1);
        tokio::time::timeout(Duration::from_secs(20), restarted).await.unwrap().unwrap();
        let _ = orders.send(Order::Stop(Duration::ZERO));
        keeper.await.unwrap();
        std::fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[tokio::test]
    async fn a_process_that_ends_again_and_again_has_its_reason() {
        let stack = StackIdentity::ephemeral().unwrap();
        let script = "echo '{\"msg\": \"failed to commit\", \"error\": \"write: no space left on device\"}'; echo bye; exit 2";
        let command = Command::new(&stack, "etcd", Path::new("/bin/sh")).unwrap().args(["-c", script]);
        let supervised = Supervised::start(command).unwrap();
        assert_eq!(supervised.ending(), None);
        supervised.watch().wait_for(|state| state.failures == 2).await.unwrap();
        let ending = supervised.ending().unwrap();
        assert_eq!((ending.name.as_str(), ending.times), ("etcd", 2));
        assert_eq!(ending.reason, "exit status: 2: no space left on device");
        supervised.stop(Duration::ZERO).await;
        std::fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[tokio::test]
    async fn who_never_gets_ready_is_given_up() {
        let stack = StackIdentity::ephemeral().unwrap();
        let command =
            Command::new(&stack, "sh", Path::new("/bin/sh")).unwrap().args(["-c", "echo why; exit 7"]);
        let supervised = Supervised::start(command).unwrap();
        let error =
            supervised.until("it", Duration::from_secs(20), async || Err::<(), _>(String::new())).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("exit status: 7") && error.contains("why"), "{error}");
        supervised.stop(Duration::ZERO).await;
        std::fs::remove_dir_all(stack.folder()).unwrap();
    }
}
