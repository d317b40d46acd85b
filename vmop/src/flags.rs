//! The flags of the program.

use std::time::Duration;

use clap::Parser;
use jiff::SignedDuration;

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

    /// Minutes between two looks at the content library when nothing tells of a change.
    #[arg(long, value_name = "MINUTES", default_value_t = 20, overrides_with = "image_sync_period")]
    image_sync_period: u64,

    /// How long after its power-on a node may take to report how its first boot went (`90s`, `20m`); 0 waits for ever.
    #[arg(long, value_name = "DURATION", default_value = "20m", overrides_with = "bootstrap_report_timeout")]
    bootstrap_report_timeout: SignedDuration,
}

impl Flags {
    /// Time between two reads of the content libraries when nothing else causes one.
    pub fn image_sync_period(&self) -> Duration {
        Duration::from_mins(self.image_sync_period.max(1))
    }

    /// How long a guest that is to report on its bootstrap may say nothing, unless for ever.
    pub fn bootstrap_report_timeout(&self) -> Option<SignedDuration> {
        Some(self.bootstrap_report_timeout).filter(SignedDuration::is_positive)
    }
}
