//! `layercake site simulate`: a simulated vSphere in a process of its own, and its site file.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use gcm::sync::authentication::COPY_SCRIPT;
use plane::Guard;
use serde::{Deserialize, Serialize};
use sim::guest::Registry;
use sim::{Site, VcenterEndpoint};
use vsphere::{Config, ShownCertificate};

use super::{address, find};
use crate::args::{NodeKind, SiteDiscover, SiteNetworkProvider, SiteSimulate};
use crate::daemon::Daemon;
use crate::exit::{ExitStatus, failed};
use crate::files::{owner_only, read_password};
use crate::init::site_file::SiteFile;
use crate::interrupts::Interrupts;
use crate::output::{say, write_out};
use crate::stack::{clean_up, ensure_programs, nodes, vm_arguments};
use crate::state;

/// The length of the prefix of the site's networks.
const PREFIX: u8 = 16;

/// The running simulated site.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    pid: u32,
    folder: PathBuf,
    vcenter: VcenterEndpoint,
    /// The addresses of control planes.
    endpoints: String,
    /// The second number of its addresses.
    number: u8,
    /// Nodes are machines that boot.
    machines: bool,
}

fn daemon() -> Result<Daemon> {
    Ok(Daemon::new(state::folder()?.join("site"), "process", "the simulated site"))
}

/// The folder of the simulated site, if it runs.
pub fn folder() -> Option<PathBuf> {
    let record = daemon().and_then(|daemon| daemon.read::<Record>()).ok().flatten();
    record.map(|record| record.folder)
}

/// Returns true if a site file is that of the simulated site of this machine, with simulated nodes.
///
/// # Errors
/// If the record of the site cannot be read.
pub fn is_simulated(site: &SiteFile) -> Result<bool> {
    let record = daemon()?.read::<Record>()?;
    Ok(record.is_some_and(|record| !record.machines && record.vcenter.authority == site.vcenter_address()))
}

/// Starts the simulated site if it does not run, and writes its site file.
pub async fn simulate(args: SiteSimulate) -> ExitStatus {
    start(&args).await.unwrap_or_else(|error| failed(&error))
}

async fn start(args: &SiteSimulate) -> Result<ExitStatus> {
    let mut interrupts = Interrupts::listening()?;
    let daemon = daemon()?;
    // A wrong image is found here, not in a log.
    nodes(&args.vms).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?;
    if daemon.holder()?.is_none() {
        // Here the user sees the progress. The process finds the programs.
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
    let text = site_file(args, &record).await?;
    let VcenterEndpoint { authority, username, password_file, .. } = &record.vcenter;
    say!("A simulated vSphere runs at {authority} until `layercake site stop`");
    say!(
        "Next: layercake bootstrap start lab -f SITE --user {username} --password-file {}",
        password_file.display()
    );
    write_out(&text);
    Ok(ExitStatus::Done)
}

/// What `site discover` finds in the simulated vCenter, with what its user would choose.
async fn site_file(args: &SiteSimulate, record: &Record) -> Result<String> {
    let vcenter = &record.vcenter;
    let (host, port) = address(&vcenter.authority)?;
    let mut config = Config::new(host, vcenter.username.clone(), read_password(&vcenter.password_file)?);
    config.port = port;
    let shown = ShownCertificate::of(&config).await?;
    let first = if record.machines { 10 } else { 127 };
    let discover = SiteDiscover {
        vcenter: vcenter.authority.clone(),
        user: vcenter.username.clone(),
        password_file: vcenter.password_file.clone(),
        thumbprint: Some(shown.thumbprint.to_string()),
        datacenter: Some(vcenter.datacenter.clone()),
        pool: Some(vcenter.resource_pool.clone()),
        folder: Some(vcenter.folder.clone()),
        datastore: Some(vcenter.datastore.clone()),
        network_provider: SiteNetworkProvider::PortGroups,
        network: Some(vcenter.network.clone()),
        node_addresses: node_addresses(record).collect(),
        endpoints: Some(record.endpoints.clone()),
        prefix: Some(PREFIX),
        gateway: Some(Ipv4Addr::new(first, record.number, 0, 1)),
        library: Some(vcenter.library.clone()),
        namespace: Some(args.namespace.clone()),
        storage_policy: None,
        vm_classes: args.vm_classes.clone(),
        roles_for: None,
    };
    // The choices are not the user's, so they need no explanation.
    find(&discover).await.map(|(text, _)| text)
}

/// The ranges of the addresses of nodes. Machines that boot share their network with the addresses of control planes.
fn node_addresses(record: &Record) -> impl Iterator<Item = ipnet::Ipv4Net> {
    let parts: &[(u8, u8)] = if record.machines {
        &[(0, 17), (128, 18), (192, 19), (224, 20), (240, 21), (248, 23)]
    } else {
        &[(0, 16)]
    };
    let number = record.number;
    parts.iter().filter_map(move |(third, prefix)| {
        ipnet::Ipv4Net::new(Ipv4Addr::new(10, number, *third, 0), *prefix).ok()
    })
}

/// Stops the simulated site.
pub async fn stop() -> Result<()> {
    let stopped = daemon()?.stop().await?;
    say!("{}", if stopped { "The simulated vSphere is stopped." } else { "No simulated vSphere runs." });
    Ok(())
}

/// Is the simulated site, until it is stopped.
pub async fn serve(args: SiteSimulate) -> Result<()> {
    let mut interrupts = Interrupts::listening()?;
    let daemon = daemon()?;
    let _lock = daemon.acquire().await?;
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    let tools = tokio::select! {
        tools = ensure_programs(BTreeMap::new(), sim::tools::programs()) => tools?,
        () = interrupts.next() => return Ok(()),
    };
    let stack = Arc::new(plane::Stack::ephemeral()?);
    let guard = Guard::start(&exe, &stack)?;
    let contents = nodes(&args.vms)?;
    let site = tokio::select! {
        site = Site::start(&stack, &tools, contents, Registry::new(true), vec![COPY_SCRIPT]) => site.map(Some),
        () = interrupts.next() => Ok(None),
    };
    let outcome = match site {
        Ok(Some(site)) => {
            let mut vcenter = site.vcenter().clone();
            // The folder of the site has another name each time.
            let password = state::folder()?.join("site/password");
            owner_only(&password, vcenter.password()?.as_bytes())?;
            vcenter.password_file.clone_from(&password);
            daemon.write(&Record {
                pid: std::process::id(),
                folder: stack.folder().to_owned(),
                vcenter,
                endpoints: site.claimed_addresses(),
                number: site.subnet().number(),
                machines: args.vms.nodes == NodeKind::Qemu,
            })?;
            let outcome = tokio::select! {
                () = interrupts.next() => Ok(()),
                died = site.died() => Err(died.into()),
            };
            daemon.clear()?;
            let _ = std::fs::remove_file(&password);
            site.stop().await;
            outcome
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error.into()),
    };
    clean_up(guard, stack.folder()).await;
    outcome
}
