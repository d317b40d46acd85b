//! A stack that outlives the command that started it.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::args::Up;
use crate::interrupts::Interrupts;
use crate::output::say;
use crate::session::{Session, owner_only};
use crate::stack::{self, Stack};
use crate::wait::until;

/// A cold start builds the tools, which takes about ten minutes on two cores.
const START: Duration = Duration::from_mins(40);
const LOCK: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_secs(30);
/// Permissions of the files that describe the stack.
const OWNER_ONLY: u32 = 0o600;

/// Where the background stack is described.
fn record() -> Result<PathBuf> {
    Ok(plane::tools::cache_folder()?.join("background.json"))
}

/// Held by the background process for as long as it lives; holds its process id.
fn lock_file() -> Result<File> {
    let folder = plane::tools::cache_folder()?;
    fs::create_dir_all(&folder)?;
    let path = folder.join("background.lock");
    let mut options = File::options();
    let opened = options.create(true).truncate(false).read(true).write(true).mode(OWNER_ONLY).open(&path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

/// The process that holds the lock, if one does.
fn holder() -> Result<Option<u32>> {
    let mut lock = lock_file()?;
    match lock.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            lock.read_to_string(&mut text)?;
            // Empty for the moment between taking it and writing.
            Ok(text.trim().parse().ok())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).context("cannot lock the record of the background stack")
        }
    }
}

/// Takes the lock for as long as the file is open.
async fn acquire_lock() -> Result<File> {
    let mut lock = lock_file()?;
    // Who looks whether it is held holds it for a moment.
    let taken = until("another stack already runs in the background and holds the lock", LOCK, async || {
        match lock.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => {
                Err(error).context("cannot lock the background stack's record")
            }
        }
    });
    taken.await?;
    lock.set_len(0)?;
    write!(lock, "{}", std::process::id())?;
    Ok(lock)
}

/// The background stack, once it is ready.
fn read_session() -> Result<Option<Session>> {
    let Some(holder) = holder()? else { return Ok(None) };
    let session = fs::read(record()?).ok().and_then(|text| serde_json::from_slice::<Session>(&text).ok());
    // What an earlier stack left behind is no word of this one.
    Ok(session.filter(|session| session.pid == holder))
}

/// The folder of the background stack, if one is ready.
pub fn folder() -> Option<PathBuf> {
    read_session().ok().flatten().map(|session| session.folder)
}

fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// The arguments of the stack's own, for the process that runs it.
fn stack_arguments(args: &Up) -> Result<Vec<String>> {
    let mut arguments = vec![format!("--wire={}", args.wire.name())];
    let word = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
    arguments.extend(word(args.network.to_possible_value()).map(|network| format!("--network={network}")));
    arguments.extend(word(args.nodes.to_possible_value()).map(|nodes| format!("--nodes={nodes}")));
    for image in &args.images {
        let path = fs::canonicalize(image).with_context(|| format!("cannot find {}", image.display()))?;
        arguments.push(format!("--image={}", path.display()));
    }
    arguments.extend(args.releases.iter().map(|release| format!("--release={}", release.version())));
    for (name, path) in &args.tools {
        arguments.push(format!("--tool={name}={}", path.display()));
    }
    Ok(arguments)
}

/// Starts a background stack and returns once it is ready; `None` if it was given up before.
pub async fn start(args: &Up, given_up: impl Future<Output = ()>) -> Result<Option<Session>> {
    if let Some(process) = holder()? {
        bail!("a stack is already running (process {process}); stop it with `layercake down`");
    }
    let log_path = plane::tools::cache_folder()?.join("background.log");
    let log = File::options().create(true).truncate(true).write(true).mode(OWNER_ONLY).open(&log_path);
    let log = log.with_context(|| format!("cannot write {}", log_path.display()))?;
    // An earlier version's may be readable for all.
    log.set_permissions(fs::Permissions::from_mode(OWNER_ONLY))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["up", "--background"]).process_group(0);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.args(stack_arguments(args)?);
    let mut child = command.spawn().context("cannot start the background process")?;
    say!("Starting a stack in the background; its log is {}", log_path.display());
    let process = child.id();
    let ready = until("the background stack", START, async || match child.try_wait()? {
        Some(status) => bail!("the background stack ended with {status}; see its log"),
        None => Ok(read_session()?.is_some()),
    });
    let outcome = tokio::select! {
        ready = ready => ready.map(Some),
        () = given_up => Ok(None),
    };
    if !matches!(outcome, Ok(Some(()))) {
        end_process(process).await?;
    }
    match outcome? {
        Some(()) => {
            let session = read_session()?;
            session.context("the background stack ended just after it was ready; see its log").map(Some)
        }
        None => Ok(None),
    }
}

/// Is the background stack, until it is stopped.
pub async fn serve(args: &Up, mut interrupts: Interrupts) -> Result<()> {
    let _lock = acquire_lock().await?;
    let _ = fs::remove_file(record()?);
    let Some(stack) = Stack::start_unless(&stack::Options::of(args)?, interrupts.next()).await? else {
        return Ok(());
    };
    let session = stack.session();
    owner_only(&record()?, &serde_json::to_vec(&session)?)?;
    let outcome = tokio::select! {
        () = interrupts.next() => Ok(()),
        died = stack.died() => Err(died),
    };
    let _ = fs::remove_file(record()?);
    stack.stop().await;
    outcome
}

/// Stops the background stack, also one that is still starting.
pub async fn stop() -> Result<()> {
    let Some(process) = holder()? else {
        say!("No stack is running in the background.");
        return Ok(());
    };
    end_process(process).await?;
    say!("Stopped.");
    Ok(())
}

/// Asks the background process to end, and waits until it has.
async fn end_process(process: u32) -> Result<()> {
    let Some(process) = pid(process) else { return Ok(()) };
    match kill_process(process, Signal::TERM) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        killed => killed.with_context(|| format!("cannot stop process {}", process.as_raw_nonzero()))?,
    }
    until("stopping the stack", STOP, async || Ok(holder()?.is_none())).await
}
