//! The VM operator: VirtualMachines, images, resource policies and services of the API group
//! `vmoperator.vmware.com`, realised in one vCenter.
//!
//! It is the only program of the cake that talks to vCenter, and it knows nothing of Cluster API: it
//! runs on any cluster that has its CRDs, configured as vm-operator is.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admission;
mod caches;
mod console;
mod data_sources;
mod enqueue;
mod extra_config;
mod image;
mod orphans;
mod pause;
mod policy;
mod probe;
mod publish;
mod service;
mod start;
mod templates;
#[cfg(test)]
mod testing;
mod unmet;
mod vcenter;
mod virtualmachine;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use probe::address::AddressMap;

/// Realises VirtualMachines, their images, resource policies and services in a vCenter.
#[derive(Clone, Debug, Parser)]
#[command(name = "vmop", version)]
pub struct Flags {
    #[command(flatten)]
    common: kit::flags::Common,

    #[command(flatten)]
    webhook: kit::flags::Webhook,

    /// Probe addresses of one network in another instead; may be given several times.
    #[arg(long, value_name = "NETWORK=NETWORK")]
    probe_address_map: Vec<AddressMap>,

    /// Minutes between two sync_requests at the content library when nothing tells of a change.
    #[arg(long, value_name = "MINUTES", default_value_t = 20, overrides_with = "image_sync_period")]
    image_sync_period: u64,
}

impl Flags {
    fn image_sync_period(&self) -> Duration {
        Duration::from_mins(self.image_sync_period.max(1))
    }
}

/// Runs the program; `args[0]` is its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let flags: Flags = match kit::flags::parse(args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    kit::run("vmop", flags.common.clone(), |started| start::start(started, flags))
}
