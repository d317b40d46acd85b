//! The bootstrap cluster process: a control plane with a persistent store, and the programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use components::render::arguments_of_site;
use plane::{Guard, Plane, Program};

use super::summary;
use crate::bootstrap_state::folder::{Folder, Settings};
use crate::bootstrap_state::record::Record;
use crate::interrupts::Interrupts;
use crate::stack::{PROGRAMS, SIMULATED_ADDRESSES, clean_up, ensure_programs};

/// The interval at which the process checks if a site has been configured.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The interval between checks for processes that keep exiting.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The timeout for saving the summary during shutdown.
const KEEP: Duration = Duration::from_secs(10);

/// Runs the bootstrap cluster until it is stopped. If `transient` is set, the command that started it also stops it.
pub async fn serve(name: &str, transient: bool) -> Result<()> {
    let mut interrupts = Interrupts::listening()?;
    let folder = Folder::of(name)?;
    let daemon = folder.daemon();
    let _lock = daemon.acquire().await?;
    folder.check()?;
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    let tools = tokio::select! {
        tools = ensure_programs(BTreeMap::new(), Vec::new()) => tools?,
        () = interrupts.next() => return Ok(()),
    };
    folder.claim()?;
    let stack = Arc::new(plane::Stack::kept(folder.path())?);
    let guard = Guard::start(&exe, &stack)?;
    let options = plane::Options {
        stack: stack.clone(),
        tools,
        definitions: Vec::new(),
        guest_proxy: Some(exe.clone()),
    };
    let plane = tokio::select! {
        plane = Plane::start(options) => plane.map(Some),
        () = interrupts.next() => Ok(None),
    };
    let outcome = match plane {
        Ok(Some(plane)) => {
            let record = Record {
                pid: std::process::id(),
                kubeconfig: plane.kubeconfig().to_owned(),
                ready: false,
                transient,
                endings: Vec::new(),
            };
            let outcome = tokio::select! {
                outcome = run(&folder, &plane, &exe, record) => outcome,
                () = interrupts.next() => Ok(()),
            };
            daemon.clear()?;
            // Continue without a summary if the API server doesn't respond, for example because etcd has failed.
            let _ = tokio::time::timeout(KEEP, summary::keep(&folder, &plane.client())).await;
            plane.stop().await;
            outcome
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error.into()),
    };
    clean_up(guard, folder.path()).await;
    outcome
}

/// Runs the programs once the site is configured. Only returns on error.
async fn run(folder: &Folder, plane: &Plane, exe: &std::path::Path, mut record: Record) -> Result<()> {
    let daemon = folder.daemon();
    daemon.write(&record)?;
    let settings = loop {
        match folder.settings()? {
            Some(settings) => break settings,
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    let start = async |name: &'static str| {
        let program = arguments(name, &settings).into_iter().fold(Program::new(name, exe), Program::arg);
        plane.run(program).await.with_context(|| format!("cannot start {name}"))
    };
    let _programs = futures::future::try_join_all(PROGRAMS.map(start)).await?;
    record.ready = true;
    daemon.write(&record)?;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let endings = plane.endings();
        if endings != record.endings {
            record.endings = endings;
            // Writing fails on a full disk, but commands check the free space themselves.
            let _ = daemon.write(&record);
        }
    }
}

/// Returns the arguments of `program` that depend on the bootstrap cluster's settings.
pub fn arguments(program: &str, settings: &Settings) -> Vec<&'static str> {
    let mut arguments = arguments_of_site(program, settings.networks(), settings.nodes_pull_images);
    if program == "vmop" && settings.simulated {
        arguments.push(SIMULATED_ADDRESSES);
    }
    // A standalone cluster's add-ons aren't reconciled between commands, so a command must not revert changes to the
    // add-ons.
    if program == "gcm" && settings.for_command {
        arguments.push("--image-addons=once");
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap_state::folder::Applied;

    #[test]
    fn arguments_follow_from_the_site() {
        let settings = |network_provider: &str, simulated| Settings {
            network_provider: network_provider.to_owned(),
            nodes_pull_images: simulated,
            simulated,
            applied: Applied::All,
            for_command: false,
        };
        let nsx = settings("NSXT", false);
        let of = |settings: &Settings| PROGRAMS.map(|program| arguments(program, settings).join(" "));
        assert_eq!(of(&nsx), ["--virtual-ip=none", "--network-provider=NSXT", ""]);
        assert_eq!(of(&settings("NAMED", false)), ["", "", ""]);
        assert_eq!(of(&settings("NAMED", true)), ["--nodes-pull-images", "", SIMULATED_ADDRESSES]);
        let standalone = Settings { for_command: true, ..settings("NAMED", false) };
        assert_eq!(of(&standalone), ["--image-addons=once", "", ""]);
    }
}
