//! The program's flags.

use std::time::Duration;

use clap::Parser;
use jiff::SignedDuration;

use crate::probe::address::AddressMap;

/// Creates VirtualMachines, their images, resource policies and services in vCenter.
#[derive(Clone, Debug, Parser)]
#[command(name = "vmop", version)]
pub struct Flags {
    #[command(flatten)]
    pub common: kit::flags::Common,

    #[command(flatten)]
    pub webhook: kit::flags::Webhook,

    /// Probe an address in the first network through the address at the same position in the second network. Can be repeated.
    #[arg(long, value_name = "NETWORK=NETWORK")]
    pub probe_address_map: Vec<AddressMap>,

    /// Minutes between two reads of the content libraries if no event reports a change.
    #[arg(long, value_name = "MINUTES", default_value_t = 20, overrides_with = "image_sync_period")]
    image_sync_period: u64,

    /// The time within which a node must report the result of its first boot after power-on (`90s`, `20m`). 0: no
    /// limit.
    #[arg(long, value_name = "DURATION", default_value = "20m", overrides_with = "bootstrap_report_timeout")]
    bootstrap_report_timeout: SignedDuration,
}

impl Flags {
    /// Returns the time between two reads of the content libraries if no event triggers one. The result is at least one minute.
    pub fn image_sync_period(&self) -> Duration {
        Duration::from_mins(self.image_sync_period.max(1))
    }

    /// Returns the time within which a guest must report the result of its bootstrap, or `None` if there is no limit.
    pub fn bootstrap_report_timeout(&self) -> Option<SignedDuration> {
        Some(self.bootstrap_report_timeout).filter(SignedDuration::is_positive)
    }
}
