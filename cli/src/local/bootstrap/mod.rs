//! Bootstrap clusters: management clusters that run as local processes and store their objects in a folder.
//!
//! `serve` is the background process. `start` starts it, connects it to a site, and waits until it is ready. Commands
//! with `--bootstrap` do the same with [`open`], and afterwards stop a process that they started. The folder is the
//! only record of the VMs, so it isn't kept in the cache, and `remove` without `--orphan` refuses to delete it while
//! VMs exist.

mod progress;
mod remove;
mod serve;
mod start;
mod summary;

use anyhow::Result;
use futures::FutureExt as _;

pub use remove::delete_if_empty;
pub use start::{Opened, open};

use crate::args::BootstrapCommand;
use crate::kubeconfig;
use crate::state::folder::BootstrapFolder;
use crate::state::trouble;
use crate::terminal::exit::{ExitStatus, status_of};
use crate::terminal::interrupts::until_interrupted;
use crate::terminal::output::{say, write_over};

/// The message for interrupted commands that continue when they are run again.
const AGAIN: &str = "Interrupted. Run the same command again";

/// Runs a `layercake bootstrap` command.
pub async fn run(command: BootstrapCommand) -> ExitStatus {
    match command {
        BootstrapCommand::Serve { name, transient } => status_of(serve::serve(&name, transient).await),
        BootstrapCommand::List { output } => status_of(summary::list(output)),
        BootstrapCommand::Start(args) => {
            let begun = format!(
                "Interrupted. Bootstrap cluster {name} goes on starting. Run the same command again, or stop it: layercake bootstrap stop {name}",
                name = args.name
            );
            until_interrupted(start::start(&args).map(status_of), || write_over(&begun)).await
        }
        BootstrapCommand::Stop { name } => {
            until_interrupted(stop(&name).map(status_of), || write_over(AGAIN)).await
        }
        BootstrapCommand::Remove { name, orphan } => {
            until_interrupted(remove::remove(&name, orphan).map(status_of), || write_over(AGAIN)).await
        }
    }
}

async fn stop(name: &str) -> Result<()> {
    let folder = BootstrapFolder::of(name)?;
    if !folder.exists() {
        return Err(folder.missing("The existing ones: layercake bootstrap list"));
    }
    let _lock = folder.lock()?;
    if let Some(trouble) = trouble::of_running(&folder) {
        say!("{name}: {trouble}");
    }
    if folder.daemon().stop().await? {
        say!("{name}: stopped. Its VMs continue to run, but are not repaired until it is started again");
        summary::say_certificates(&folder)?;
        if let Ok(file) = kubeconfig::users_file(None)
            && let Some(former) = kubeconfig::leave_bootstrap(name, &file).await?
        {
            say!("{name}: kubectl uses context {former} of {} again", file.display());
        }
    } else {
        say!("{name}: was not running");
    }
    Ok(())
}
