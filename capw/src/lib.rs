//! capw, the infrastructure provider `wcp` of Cluster API: the layer between Machines and VirtualMachines.
//!
//! - It reads Cluster, Machine, WCPCluster, WCPMachine, WCPMachineTemplate, VirtualMachineClass,
//!   VirtualMachineImage and a Machine's bootstrap Secret.
//! - It writes VirtualNetwork, VirtualMachineSetResourcePolicy, VirtualMachineService, the cloud-init Secret,
//!   PersistentVolumeClaim, VirtualMachine, and the status of the WCP kinds.
//! - It never touches a TanzuKubernetesCluster or vCenter.
//!
//! One folder per kind; each reconcile gathers, plans, acts, and says how things are.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(test)]
mod fixtures;
pub mod template;
pub mod upstream;
pub mod wcpcluster;
pub mod wcpmachine;

use api::{
    capi::{Cluster, Machine},
    capw::{WCPCluster, WCPMachine, WCPMachineTemplate},
    net::VirtualNetwork,
    vmop::{
        VirtualMachine, VirtualMachineClass, VirtualMachineImage, VirtualMachineService,
        VirtualMachineSetResourcePolicy,
    },
};
use clap::Parser;
use kit::{
    Runtime, flags,
    run::Fatal,
    watch::{self, Cache, Watchable},
};
use kube::Api;
use std::{ffi::OsString, process::ExitCode, sync::Arc};

/// Cluster API infrastructure provider wcp: makes VirtualMachines of Machines.
#[derive(Debug, Parser)]
#[command(name = "capw", version)]
struct Flags {
    #[command(flatten)]
    common: flags::Common,
}

/// Runs the program with these arguments; the first is its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    match flags::parse::<Flags>(args) {
        Ok(Flags { common }) => kit::run("capw", common, start),
        Err(code) => code,
    }
}

/// Every kind that capw watches.
pub struct Caches {
    /// Cluster API's Clusters.
    pub clusters: Cache<Cluster>,
    /// Cluster API's Machines.
    pub machines: Cache<Machine>,
    /// Infrastructure of clusters.
    pub wcp_clusters: Cache<WCPCluster>,
    /// Infrastructure of machines.
    pub wcp_machines: Cache<WCPMachine>,
    /// What machines are made from.
    pub templates: Cache<WCPMachineTemplate>,
    /// Virtual machines.
    pub vms: Cache<VirtualMachine>,
    /// Where virtual machines lie.
    pub policies: Cache<VirtualMachineSetResourcePolicy>,
    /// Load balancers.
    pub services: Cache<VirtualMachineService>,
    /// Networks of clusters.
    pub networks: Cache<VirtualNetwork>,
    /// Sizes.
    pub classes: Cache<VirtualMachineClass>,
    /// Node images.
    pub images: Cache<VirtualMachineImage>,
}

impl Caches {
    fn watched(started: &Runtime) -> Self {
        Self {
            clusters: watched(started),
            machines: watched(started),
            wcp_clusters: watched(started),
            wcp_machines: watched(started),
            templates: watched(started),
            vms: watched(started),
            policies: watched(started),
            services: watched(started),
            networks: watched(started),
            classes: watched(started),
            images: watched(started),
        }
    }
}

fn watched<K: Watchable>(started: &Runtime) -> Cache<K> {
    watch::objects(started, Api::all(started.client.clone()))
}

async fn start(started: Runtime) -> Result<(), Fatal> {
    started.lead().await?;
    let caches = Arc::new(Caches::watched(&started));
    tokio::join!(
        wcpcluster::controller(&started, &caches),
        wcpmachine::controller(&started, &caches),
        template::controller(&started, &caches),
    );
    Ok(())
}
