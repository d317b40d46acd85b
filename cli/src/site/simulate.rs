//! `layercake site simulate`: starts a simulated vSphere in a separate process, and writes its site file.

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

/// The prefix length of the site's networks.
const PREFIX: u8 = 16;

/// The record of the running simulated site.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    pid: u32,
    folder: PathBuf,
    vcenter: VcenterEndpoint,
    /// The control plane address range, in the format of `--endpoints`.
    endpoints: String,
    /// The second octet of the site's addresses.
    number: u8,
    /// True if nodes are QEMU machines.
    machines: bool,
}

fn daemon() -> Result<Daemon> {
    Ok(Daemon::new(state::folder()?.join("site"), "process", "the simulated site"))
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
pub fn is_simulated(site: &SiteFile) -> Result<bool> {
    let record = daemon()?.read::<Record>()?;
    Ok(record.is_some_and(|record| !record.machines && record.vcenter.authority == site.vcenter_address()))
}

/// Starts the simulated site if necessary, and writes its site file.
pub async fn simulate(args: SiteSimulate) -> ExitStatus {
    start(&args).await.unwrap_or_else(|error| failed(&error))
}

async fn start(args: &SiteSimulate) -> Result<ExitStatus> {
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

/// Returns the `site discover` output for the simulated vCenter and its default objects.
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
    // The user didn't make these choices, so skip the explanation.
    find(&discover).await.map(|(text, _)| text)
}

/// Returns the address ranges of nodes. QEMU nodes share a network with the control plane addresses, which these ranges
/// omit.
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

/// Runs the simulated site until it is stopped.
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
            // The site folder's name changes with each start, so copy the password to a fixed path.
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
