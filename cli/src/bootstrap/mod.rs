//! Bootstrap clusters: management clusters on this machine, as processes, whose objects are kept in a folder.
//!
//! `serve` is the process in the background. `start` starts it, connects it to a site, and waits until it is ready. A command with
//! `--bootstrap` does the same by [`open`], and stops it afterwards. The folder is the only record of the VMs, so it is not in the cache,
//! and `remove` deletes it only if no VM is left.

mod folder;
mod record;
mod remove;
mod serve;
mod start;
mod summary;

use anyhow::Result;

pub use folder::Folder;
pub use remove::delete_if_empty;
pub use serve::arguments;
pub use start::{Opened, open};

use crate::args::BootstrapCommand;
use crate::exit::{ExitStatus, failed};
use crate::interrupts::Interrupts;
use crate::output::{say, write_over};

/// Runs one of the commands.
pub async fn run(command: BootstrapCommand) -> ExitStatus {
    let mut interrupts = match Interrupts::listening() {
        Ok(interrupts) => interrupts,
        Err(error) => return failed(&error),
    };
    let (work, begun) = match command {
        BootstrapCommand::Serve { name, transient } => {
            return match serve::serve(&name, transient, interrupts).await {
                Ok(()) => ExitStatus::Done,
                Err(error) => failed(&error),
            };
        }
        BootstrapCommand::List { output } => {
            return match summary::list(output) {
                Ok(()) => ExitStatus::Done,
                Err(error) => failed(&error),
            };
        }
        BootstrapCommand::Start(args) => {
            let begun = format!(
                "Interrupted. Bootstrap cluster {name} goes on starting. Run the same command again, or stop it: layercake bootstrap stop {name}",
                name = args.name
            );
            (Work::Start(args), begun)
        }
        BootstrapCommand::Stop { name } => {
            (Work::Stop(name), "Interrupted. Run the same command again".to_owned())
        }
        BootstrapCommand::Remove { name, orphan } => {
            (Work::Remove(name, orphan), "Interrupted. Run the same command again".to_owned())
        }
    };
    tokio::select! {
        done = work.run() => match done {
            Ok(()) => ExitStatus::Done,
            Err(error) => failed(&error),
        },
        () = interrupts.next() => {
            write_over(&begun);
            ExitStatus::Interrupted
        }
    }
}

enum Work {
    Start(crate::args::BootstrapStart),
    Stop(String),
    Remove(String, bool),
}

impl Work {
    async fn run(self) -> Result<()> {
        match self {
            Self::Start(args) => start::start(&args).await,
            Self::Stop(name) => stop(&name).await,
            Self::Remove(name, orphan) => remove::remove(&name, orphan).await,
        }
    }
}

async fn stop(name: &str) -> Result<()> {
    let folder = Folder::of(name)?;
    if !folder.exists() {
        return Err(folder.missing("The existing ones: layercake bootstrap list"));
    }
    let _lock = folder.lock()?;
    if folder.daemon().stop().await? {
        say!("{name}: stopped. Its VMs continue to run, but are not repaired until it is started again");
        summary::say_certificates(&folder)?;
    } else {
        say!("{name}: was not running");
    }
    Ok(())
}
