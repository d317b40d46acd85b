//! A stack that outlives the command that started it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::args::Up;
use crate::session::{Session, owner_only};
use crate::stack::{self, Stack};
use crate::up::{interrupted, until};

/// A cold start builds the tools, which takes about ten minutes on two cores.
const START: Duration = Duration::from_mins(40);
const STOP: Duration = Duration::from_secs(30);

/// Where the background stack is described.
fn record() -> Result<PathBuf> {
    Ok(plane::tools::cache_folder()?.join("background.json"))
}

fn recorded() -> Option<Session> {
    let session: Session = serde_json::from_slice(&fs::read(record().ok()?).ok()?).ok()?;
    is_alive(session.pid).then_some(session)
}

fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

fn is_alive(raw: u32) -> bool {
    pid(raw).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Starts a background stack and returns once it is ready.
pub async fn started(args: &Up) -> Result<Session> {
    if let Some(session) = recorded() {
        bail!("a stack is running already (process {}): stop it with `layercake down`", session.pid);
    }
    let _ = fs::remove_file(record()?);
    let folder = plane::tools::cache_folder()?;
    fs::create_dir_all(&folder)?;
    let log_path = folder.join("background.log");
    let log = fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["up", "--background"]).process_group(0);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    for (name, path) in &args.tools {
        command.arg(format!("--tool={name}={}", path.display()));
    }
    let mut child = command.spawn().context("cannot start the background process")?;
    eprintln!("Starting a stack in the background; its log is {}", log_path.display());
    let ready = until("the background stack", START, || {
        let exited = child.try_wait();
        async move {
            match exited? {
                Some(status) => bail!("the background stack ended with {status}; see its log"),
                None => Ok(recorded().is_some()),
            }
        }
    });
    ready.await?;
    recorded().context("the background stack ended just after it was ready; see its log")
}

/// Is the background stack, until it is told to stop.
pub async fn serve(args: &Up) -> Result<()> {
    let stack = Stack::start(&stack::Options::of(args)?).await?;
    let session = stack.session();
    owner_only(&record()?, &serde_json::to_vec(&session)?)?;
    let outcome = tokio::select! {
        () = interrupted() => Ok(()),
        died = stack.died() => Err(died),
    };
    stack.stop().await;
    let _ = fs::remove_file(record()?);
    outcome
}

/// Stops the background stack.
pub async fn stopped() -> Result<()> {
    let Some(session) = recorded() else {
        eprintln!("No stack is running in the background.");
        return Ok(());
    };
    let process = pid(session.pid).context("the record of the background stack is damaged")?;
    kill_process(process, Signal::TERM).with_context(|| format!("cannot stop process {}", session.pid))?;
    until("stopping the stack", STOP, || async { Ok(!is_alive(session.pid)) }).await?;
    let _ = fs::remove_file(record()?);
    eprintln!("Stopped.");
    Ok(())
}
