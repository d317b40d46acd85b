//! capw, the Cluster API infrastructure provider `wcp`: the layer between Machines and VirtualMachines.
//!
//! - It reads Cluster, Machine, WCPCluster, WCPMachine, WCPMachineTemplate, ProviderServiceAccount, VirtualMachineClass,
//!   VirtualMachineImage, Zone, AvailabilityZone, IPAddress, IPAM pools, bootstrap Secrets and workload cluster kubeconfigs.
//! - It writes VirtualNetwork, IPAddressClaim, VirtualMachineSetResourcePolicy, VirtualMachineService, the cloud-init Secret,
//!   PersistentVolumeClaim, VirtualMachine, and the status of the WCP kinds. It annotates Machines for remediation. For a
//!   ProviderServiceAccount, it writes ServiceAccount, Role, RoleBinding and token, and copies the token to the workload cluster.
//! - It never accesses a TanzuKubernetesCluster or vCenter.
//!
//! Each kind has a folder. A reconcile gathers facts, makes a plan, carries it out and reports the status.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod account;
pub mod caches;
pub mod error;
#[cfg(test)]
mod fixtures;
pub mod network;
pub mod scope;
pub mod template;
pub mod upstream;
pub mod virtual_router;
pub mod wcpcluster;
pub mod wcpmachine;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Command, CommandFactory as _, Parser};
use kit::run::Fatal;
use kit::{Runtime, flags};

use caches::Caches;
use network::NetworkFlags;
use scope::Scope;

/// Cluster API infrastructure provider wcp: creates VirtualMachines for Machines.
#[derive(Debug, Parser)]
#[command(name = "capw", version)]
struct Flags {
    #[command(flatten)]
    common: flags::Common,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    scope: Scope,
}

/// Returns the definition of the program's flags.
pub fn command() -> Command {
    Flags::command()
}

/// Runs the program. `args[0]` is the program name. If `args[1]` is `guest-proxy`, runs the proxy for Cluster API's managers
/// instead: both programs are in the same image.
pub fn main(mut args: Vec<OsString>) -> ExitCode {
    if args.get(1).is_some_and(|command| command == "guest-proxy") {
        args.remove(0);
        return guestproxy::main(args);
    }
    match flags::parse::<Flags>(args) {
        Ok(Flags { common, network, scope }) => {
            kit::run("capw", common, |started| start(started, network, scope))
        }
        Err(code) => code,
    }
}

async fn start(started: Runtime, network: NetworkFlags, scope: Scope) -> Result<(), Fatal> {
    started.lead().await?;
    let caches = Arc::new(Caches::watch(&started, scope));
    tokio::join!(
        account::controller(&started, &caches),
        wcpcluster::controller(&started, &caches, &network),
        wcpmachine::controller(&started, &caches, network.network_provider),
        template::controller(&started, &caches),
    );
    Ok(())
}
