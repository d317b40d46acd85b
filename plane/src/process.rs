//! Child processes. Each runs in its own process group, carries the stack's mark, and writes its output to a log file.
//!
//! The guard finds the processes by their mark when this process is gone. Because of the process groups, a Ctrl-C on
//! the terminal doesn't reach the processes before they are stopped in order.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};

use crate::error::{Error, OperationContext, Result};
use crate::mark::{MARK, NAME};
use crate::stack::StackIdentity;
use crate::wait;

/// The environment variable with the Go runtime's soft memory limit. Near the limit, Go collects garbage as often as
/// needed.
const GOMEMLIMIT: &str = "GOMEMLIMIT";
/// The default [`GOMEMLIMIT`] in MiB, for programs without a limit of their own.
const GO_MIB: u32 = 4096;

/// The command line, environment and limits of a process. It can be started many times.
#[derive(Debug, Clone)]
pub struct Command {
    name: String,
    exe: PathBuf,
    arg0: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    log: PathBuf,
    stack: String,
    pipes: bool,
    /// The maximum data size of the process (`RLIMIT_DATA`), in MiB.
    data_mib: Option<u32>,
}

impl Command {
    /// Creates a command for a process in the stack, which logs to `logs/<name>.log` in the stack's folder.
    ///
    /// For Go programs, the environment contains `GOGC` with 40 and `GOMEMLIMIT` with 4 GiB. [`gogc`](Self::gogc) and
    /// [`memory`](Self::memory) change these defaults.
    pub fn new(stack: &StackIdentity, name: &str, exe: &Path) -> Result<Self> {
        let command = Self {
            name: name.to_owned(),
            exe: exe.to_owned(),
            arg0: exe.as_os_str().to_owned(),
            args: Vec::new(),
            // Temporary files that a killed process leaves behind are deleted with the stack.
            env: vec![("TMPDIR".into(), stack.subfolder("tmp")?.into())],
            log: stack.subfolder("logs")?.join(format!("{name}.log")),
            stack: stack.id().to_owned(),
            pipes: false,
            data_mib: None,
        };
        Ok(command.gogc(40).gomemlimit(GO_MIB))
    }

    /// Limits the process's memory to `mib` MiB. The kernel refuses to reserve more, so the program exits. From three
    /// quarters of the limit on, a Go program collects more garbage. A `GOMEMLIMIT` in this process's environment
    /// replaces both limits.
    ///
    /// The kernel counts all writable memory that the process has reserved, not only the memory in use.
    #[must_use]
    pub fn memory(mut self, mib: u32) -> Self {
        self.data_mib = std::env::var_os(GOMEMLIMIT).is_none().then_some(mib);
        self.gomemlimit(mib / 4 * 3)
    }

    fn gomemlimit(mut self, mib: u32) -> Self {
        if std::env::var_os(GOMEMLIMIT).is_some() {
            return self;
        }
        self.env.retain(|(name, _)| name != GOMEMLIMIT);
        self.env(GOMEMLIMIT, format!("{mib}MiB"))
    }

    /// Sets `GOGC`: the garbage that a Go program keeps, in percent of the memory in use. Go's default is 100. A lower
    /// value saves memory and costs CPU time. A `GOGC` in this process's environment takes precedence.
    #[must_use]
    pub fn gogc(self, percent: u16) -> Self {
        const GOGC: &str = "GOGC";
        if std::env::var_os(GOGC).is_some() { self } else { self.env(GOGC, percent.to_string()) }
    }

    /// Sets the `argv[0]` with which the program is called.
    #[must_use]
    pub fn arg0(mut self, arg0: impl AsRef<OsStr>) -> Self {
        arg0.as_ref().clone_into(&mut self.arg0);
        self
    }

    /// Adds an argument. Don't pass secrets: every user of the machine can read arguments.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable for the process.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Connects standard input and output to pipes. The log then contains only standard error.
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.pipes = true;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the log file path.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the process. Dropping the [`Process`] kills its process group.
    pub fn spawn(&self) -> Result<Process> {
        let log = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.log)
            .doing(|| format!("open {}", self.log.display()))?;
        let log_from = log.metadata().map(|found| found.len()).unwrap_or_default();
        let out = log.try_clone().doing(|| format!("open {}", self.log.display()))?;
        let mut command = tokio::process::Command::new(&self.exe);
        command
            .arg0(&self.arg0)
            .args(&self.args)
            // The KUBECONFIG from the user's shell refers to other clusters.
            .env_remove("KUBECONFIG")
            .env(MARK, &self.stack)
            .env(NAME, &self.name)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(if self.pipes { Stdio::piped() } else { Stdio::null() })
            .stdout(if self.pipes { Stdio::piped() } else { out.into() })
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().doing(|| format!("start {} ({})", self.name, self.exe.display()))?;
        self.limit(&child);
        Ok(Process::watch(self, child, log_from))
    }

    /// Limits the memory of a process that has just started. Limiting it before the start would need unsafe code.
    fn limit(&self, child: &Child) {
        let Some(mib) = self.data_mib else { return };
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let bytes = Some(u64::from(mib) << 20);
        if let Err(error) = prlimit(pid, Resource::Data, Rlimit { current: bytes, maximum: bytes }) {
            tracing::warn!(name = self.name, %error, "cannot limit the memory of a process");
        }
    }
}

/// A running child process.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: u32,
    log_from: u64,
    signals: mpsc::UnboundedSender<Signal>,
    ended: watch::Receiver<Option<ExitStatus>>,
    /// Kept open until the [`Process`] is dropped. Closing it ends a program that reads standard input.
    _stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
}

impl Process {
    fn watch(command: &Command, mut child: Child, log_from: u64) -> Self {
        let pid = child.id().unwrap_or_default();
        let (signals, received) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        tokio::spawn(attend(child, received, end));
        Self {
            name: command.name.clone(),
            log: command.log.clone(),
            pid,
            log_from,
            signals,
            ended,
            _stdin: stdin,
            stdout,
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the log file path.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the log file size in bytes when the process was started.
    pub fn log_from(&self) -> u64 {
        self.log_from
    }

    /// Takes the standard output. Returns `None` if the process isn't [piped](Command::piped) or the output
    /// has already been taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Waits until the process exits.
    pub async fn wait(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_default(),
            Err(_) => ExitStatus::default(),
        }
    }

    /// Sends a signal to the process group.
    pub fn signal(&self, signal: Signal) {
        let _ = self.signals.send(signal);
    }

    /// Kills the process group with SIGKILL, and waits until the process is gone.
    pub async fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait().await;
    }

    /// Sends SIGTERM, and SIGKILL if the process doesn't exit within `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Waits until `ready` returns `Ok`, polling every 50 ms for at most `limit`. Fails early if the process exits. `what` is the
    /// unmet condition in errors, as in "etcd is not ready".
    pub async fn until<T>(
        &self,
        what: &str,
        limit: Duration,
        ready: impl AsyncFnMut() -> Result<T, String>,
    ) -> Result<T> {
        let ended =
            async { ended_early(&self.name, &self.log, self.log_from, &self.wait().await.to_string()) };
        wait::until_or(what, limit, ready, ended).await
    }
}

/// Waits for the child and forwards signals to its process group. Only this task reaps the child, so it never signals a
/// process that was reaped.
async fn attend(
    mut child: Child,
    mut signals: mpsc::UnboundedReceiver<Signal>,
    end: watch::Sender<Option<ExitStatus>>,
) {
    let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.unwrap_or_default(),
            signal = signals.recv() => {
                // The `Process` was dropped. Kill the group.
                let gone = signal.is_none();
                if let Some(group) = group {
                    let _ = kill_process_group(group, signal.unwrap_or(Signal::KILL));
                }
                if gone {
                    break child.wait().await.unwrap_or_default();
                }
            }
        }
    };
    end.send_replace(Some(status));
}

/// Returns the error for a process that exited before it was ready: [`Error::PortTaken`] if its log says so, otherwise
/// [`Error::Exited`]. The process's log begins at byte `from` of the file.
pub(crate) fn ended_early(name: &str, log: &Path, from: u64, status: &str) -> Error {
    let tail = tail(log, from, 15);
    if tail.to_lowercase().contains("address already in use") {
        return Error::PortTaken { name: name.to_owned() };
    }
    Error::Exited { name: name.to_owned(), status: status.to_owned(), log: log.to_owned(), tail }
}

/// Returns the last `lines` lines of a log file, without its first `from` bytes. Returns an empty string if the file
/// can't be read.
pub fn tail(log: &Path, from: u64, lines: usize) -> String {
    let mut text = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut text)
    });
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shell(stack: &StackIdentity, script: &str) -> Command {
        Command::new(stack, "sh", Path::new("/bin/sh")).unwrap().args(["-c", script])
    }

    #[tokio::test]
    async fn a_process_is_marked_and_logged_and_its_end_is_reported() {
        let stack = StackIdentity::ephemeral().unwrap();
        let process =
            shell(&stack, "echo $LAYERCAKE_STACK $LAYERCAKE_PROCESS $GOGC; exit 3").spawn().unwrap();
        assert_eq!(process.wait().await.code(), Some(3));
        let gogc = std::env::var("GOGC").unwrap_or_else(|_| "40".to_owned());
        assert_eq!(tail(process.log(), 0, 5), format!("{} sh {gogc}", stack.id()));
        let error = process.until("it", Duration::from_secs(5), async || Err::<(), _>(String::new())).await;
        assert!(error.unwrap_err().to_string().contains("exit status: 3"));
        fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[tokio::test]
    async fn a_process_has_the_memory_that_it_is_given() {
        let stack = StackIdentity::ephemeral().unwrap();
        // The limit is set after the process has started, so the script waits for it.
        let script = "until [ $(ulimit -d) = 131072 ]; do :; done; echo $GOMEMLIMIT";
        let process = shell(&stack, script).memory(128).spawn().unwrap();
        assert!(process.wait().await.success());
        assert_eq!(tail(process.log(), 0, 5), "96MiB");
        fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[tokio::test]
    async fn a_lost_port_is_an_error_of_its_own() {
        let stack = StackIdentity::ephemeral().unwrap();
        let process =
            shell(&stack, "echo listen tcp: bind: address already in use >&2; exit 1").spawn().unwrap();
        let error = process.until("it", Duration::from_secs(5), async || Err::<(), _>(String::new())).await;
        assert!(matches!(error, Err(Error::PortTaken { .. })), "{error:?}");
        fs::remove_dir_all(stack.folder()).unwrap();
    }

    #[test]
    fn a_tail_begins_where_the_process_did() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("x.log");
        fs::write(&log, "old\n1\n2\n3\n").unwrap();
        assert_eq!(tail(&log, 0, 2), "2\n3");
        assert_eq!(tail(&log, 4, 9), "1\n2\n3");
        assert_eq!(tail(&folder.path().join("none"), 0, 9), "");
    }

    #[tokio::test]
    async fn a_dropped_process_is_killed_with_its_children() {
        let stack = StackIdentity::ephemeral().unwrap();
        let mut process = shell(&stack, "sleep 1000 & echo $!; wait").piped().spawn().unwrap();
        let mut line = String::new();
        let mut out = tokio::io::BufReader::new(process.take_stdout().unwrap());
        tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line).await.unwrap();
        let mut ended = process.ended.clone();
        drop(process);
        ended.wait_for(Option::is_some).await.unwrap();
        // The pipe closes when the last process that holds it is gone.
        tokio::io::AsyncReadExt::read_to_string(&mut out, &mut String::new()).await.unwrap();
        fs::remove_dir_all(stack.folder()).unwrap();
    }
}
