//! The bootstrap cluster process: a management cluster with a persistent store.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use plane::StackIdentity;

use super::summary;
use crate::local::cluster::Cluster;
use crate::local::guarded::{GuardedStack, StackPrograms};
use crate::local::serve::{self, Served};
use crate::state::daemon::Daemon;
use crate::state::folder::{BootstrapFolder, SiteSettings};
use crate::state::record::Record;
use crate::terminal::interrupts::Interrupts;

/// The interval at which the process checks if a site has been configured.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The interval between checks for processes that keep exiting.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The timeout for saving the summary during shutdown.
const KEEP: Duration = Duration::from_secs(10);

/// A bootstrap cluster that this process runs.
struct Bootstrap {
    guarded: GuardedStack,
    cluster: Cluster,
    folder: BootstrapFolder,
    /// True if the command that started it also stops it.
    transient: bool,
}

/// Runs the bootstrap cluster until it is stopped. If `transient` is set, the command that started it also stops it.
pub async fn serve(name: &str, transient: bool) -> Result<()> {
    let interrupts = Interrupts::listening()?;
    let folder = BootstrapFolder::of(name)?;
    serve::serve(&folder.daemon(), interrupts, async |interrupts| {
        folder.check()?;
        let needs = StackPrograms::of_this_program(Vec::new())?;
        let open = || {
            folder.claim()?;
            Ok(StackIdentity::kept(folder.path())?)
        };
        let start = async |stack: &_, tools| {
            Cluster::start(needs.exe.clone(), std::sync::Arc::clone(stack), tools, Vec::new()).await
        };
        let started = GuardedStack::start(&needs, open, start, interrupts.next()).await?;
        Ok(started.map(|(guarded, cluster)| Bootstrap {
            guarded,
            cluster,
            folder: folder.clone(),
            transient,
        }))
    })
    .await
}

impl Served for Bootstrap {
    async fn run(&self, daemon: &Daemon) -> Result<()> {
        let plane = self.cluster.plane();
        let record = Record {
            pid: std::process::id(),
            kubeconfig: plane.kubeconfig().to_owned(),
            ready: false,
            started: Vec::new(),
            transient: self.transient,
            endings: Vec::new(),
            args: BTreeMap::new(),
        };
        daemon.write(&record)?;
        let settings = self.wait_for_settings().await?;
        let record = Mutex::new(record);
        let started = |name: &str| {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.started.push(name.to_owned());
            // Only progress is lost if this fails.
            let _ = daemon.write(&*record);
        };
        let managers = self.cluster.run_managers(&settings, started);
        let programs = self.cluster.run_programs(&settings, |_| Vec::new(), started);
        let ((), _programs) = tokio::try_join!(managers, programs)?;
        let mut record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
        record.args = settings.args;
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

    async fn stop(self) {
        let Self { guarded, cluster, folder, .. } = self;
        // Continue without a summary if the API server doesn't respond, for example because etcd has failed.
        let _ = tokio::time::timeout(KEEP, summary::keep(&folder, &cluster.plane().client())).await;
        cluster.stop().await;
        guarded.clean_up().await;
    }
}

impl Bootstrap {
    /// Waits until a command has configured the site.
    async fn wait_for_settings(&self) -> Result<SiteSettings> {
        loop {
            match self.folder.settings()? {
                Some(settings) => return Ok(settings),
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }
}
