//! The VM operator: reconciles the `vmoperator.vmware.com` kinds (VirtualMachines, images, resource policies, services)
//! in one vCenter.
//!
//! The VM operator is the only controller program of Layercake that talks to vCenter. It doesn't depend on Cluster API: it runs
//! on any cluster that has the `vmoperator.vmware.com` CRDs, and its configuration has vm-operator's format.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admission;
mod caches;
mod console;
mod data_sources;
mod device_check;
pub mod doctor;
mod enqueue;
mod error;
mod extra_config;
mod flags;
mod image;
pub mod leftovers;
mod namespace_networks;
mod orphans;
mod pause;
mod policy;
mod probe;
mod program;
mod publish;
mod service;
mod stable_hash;
mod templates;
#[cfg(test)]
mod testing;
mod unmet;
pub mod untrusted;
mod vcenter;
mod virtualmachine;
mod watches;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};

use flags::Flags;
pub use vcenter::settings::LIBRARIES_CHANGED;

/// Returns the definition of the program's flags.
pub fn command() -> Command {
    Flags::command()
}

/// Runs the program. `args[0]` is the program name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let flags: Flags = match kit::flags::parse(args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    kit::run("vmop", flags.common.clone(), |started| program::start(started, flags))
}
