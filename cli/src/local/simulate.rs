//! `layercake site simulate`: starts a simulated vSphere in a separate process, and writes its site file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use plane::StackIdentity;
use serde::{Deserialize, Serialize};
use sim::{SiteSimulation, VcenterEndpoint};

use super::guarded::{GuardedStack, StackPrograms, ensure_programs};
use super::serve::{self, Served};
use super::simulated_site::{self, SimulatedNamespace, SimulatedSite, nodes, vm_arguments};
use crate::args::{RegistryAccess, SiteSimulate};
use crate::files::owner_only;
use crate::init::site_file::SiteFile;
use crate::kube::manifest::yaml;
use crate::state::daemon::Daemon;
use crate::state::home;
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::interrupts::Interrupts;
use crate::terminal::output::{say, write_out};

/// The record of the running simulated site.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    pid: u32,
    folder: PathBuf,
    #[serde(flatten)]
    site: SimulatedSite,
}

fn daemon() -> Result<Daemon> {
    Ok(Daemon::new(home::folder()?.join("site"), "process", "the simulated site"))
}

/// Returns the simulated site's folder if the site is running.
pub fn folder() -> Option<PathBuf> {
    let record = daemon().and_then(|daemon| daemon.read::<Record>()).ok().flatten();
    record.map(|record| record.folder)
}

/// Returns true if a site file belongs to this machine's simulated site, with simulated nodes.
///
/// # Errors
/// Returns an error if the site's record can't be read.
pub fn is_simulated(file: &SiteFile) -> Result<bool> {
    let record = daemon()?.read::<Record>()?;
    Ok(record.is_some_and(|Record { site, .. }| {
        !site.machines && site.vcenter.authority == file.vcenter_address()
    }))
}

/// Starts the simulated site if necessary, and writes its site file.
pub async fn simulate(args: SiteSimulate) -> ExitStatus {
    start(args).await.unwrap_or_else(|error| failed(&error))
}

async fn start(args: SiteSimulate) -> Result<ExitStatus> {
    let mut interrupts = Interrupts::listening()?;
    let daemon = daemon()?;
    // Report an invalid image here instead of in the log.
    nodes(&args.vms).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?;
    if daemon.holder()?.is_none() {
        // Build the programs here, where the user sees the progress. The process then finds them.
        tokio::select! {
            tools = ensure_programs(BTreeMap::new(), sim::tools::programs()) => drop(tools?),
            () = interrupts.next() => return Ok(ExitStatus::Interrupted),
        }
        let is_ready = || Ok(daemon.read::<Record>()?.is_some());
        let mut arguments = vec!["site".to_owned(), "serve".to_owned()];
        arguments.extend(vm_arguments(&args.vms)?);
        if !daemon.start(&arguments, is_ready, interrupts.next()).await? {
            return Ok(ExitStatus::Interrupted);
        }
    }
    let record: Record =
        daemon.read()?.context("the simulated site is still starting: run the same command again")?;
    let namespace = SimulatedNamespace { name: args.namespace, classes: args.vm_classes };
    let text = yaml(&record.site.objects(Some(namespace)).await?)?;
    let VcenterEndpoint { authority, username, password_file, .. } = &record.site.vcenter;
    say!("A simulated vSphere runs at {authority} until `layercake site stop`");
    say!(
        "Next: layercake bootstrap start lab -f SITE --user {username} --password-file {}",
        password_file.display()
    );
    write_out(&text);
    Ok(ExitStatus::Done)
}

/// Stops the simulated site.
pub async fn stop() -> Result<()> {
    let stopped = daemon()?.stop().await?;
    say!("{}", if stopped { "The simulated vSphere is stopped." } else { "No simulated vSphere runs." });
    Ok(())
}

/// A simulated site that this process runs.
struct RunningSite {
    guarded: GuardedStack,
    site: SiteSimulation,
    /// A copy of the password at a fixed path, because the site folder's name changes with each start.
    password: PathBuf,
}

/// Runs the simulated site until it is stopped.
pub async fn serve(args: SiteSimulate) -> Result<()> {
    serve::serve(&daemon()?, Interrupts::listening()?, async |interrupts| {
        let needs = StackPrograms::of_this_program(sim::tools::programs())?;
        let start = async |stack: &_, tools| {
            simulated_site::start(stack, &tools, nodes(&args.vms)?, RegistryAccess::Reachable).await
        };
        let started =
            GuardedStack::start(&needs, || Ok(StackIdentity::ephemeral()?), start, interrupts.next()).await?;
        let password = home::folder()?.join("site/password");
        Ok(started.map(|(guarded, site)| RunningSite { guarded, site, password }))
    })
    .await
}

impl Served for RunningSite {
    async fn run(&self, daemon: &Daemon) -> Result<()> {
        let mut site = SimulatedSite::of(&self.site);
        owner_only(&self.password, site.vcenter.password()?.as_bytes())?;
        site.vcenter.password_file.clone_from(&self.password);
        let folder = self.guarded.stack().folder().to_owned();
        daemon.write(&Record { pid: std::process::id(), folder, site })?;
        Err(self.site.died().await.into())
    }

    async fn stop(self) {
        let Self { guarded, site, password } = self;
        let _ = std::fs::remove_file(&password);
        site.stop().await;
        guarded.clean_up().await;
    }
}
