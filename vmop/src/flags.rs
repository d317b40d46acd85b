//! The flags of the program.

use std::time::Duration;

use clap::Parser;

use crate::probe::address::AddressMap;

/// Realises VirtualMachines, their images, resource policies and services in a vCenter.
#[derive(Clone, Debug, Parser)]
#[command(name = "vmop", version)]
pub struct Flags {
    #[command(flatten)]
    pub common: kit::flags::Common,

    #[command(flatten)]
    pub webhook: kit::flags::Webhook,

    /// Probe addresses of one network in another instead; may be given several times.
    #[arg(long, value_name = "NETWORK=NETWORK")]
    pub probe_address_map: Vec<AddressMap>,

    /// Minutes between two sync_requests at the content library when nothing tells of a change.
    #[arg(long, value_name = "MINUTES", default_value_t = 20, overrides_with = "image_sync_period")]
    image_sync_period: u64,
}

impl Flags {
    /// Time between two reads of the content libraries when nothing else causes one.
    pub fn image_sync_period(&self) -> Duration {
        Duration::from_mins(self.image_sync_period.max(1))
    }
}
