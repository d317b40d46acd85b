//! The vCenter client. It knows no Kubernetes.
//!
//! One [`Client`] per vCenter holds one session, whoever uses it. [`Inventory`] keeps a cache of all
//! virtual machines below some folders by one long poll, and awaits tasks on the same stream, so a
//! caller reads the cache and sends only calls that change something.
//!
//! Two wires carry the VIM API, VI/JSON and SOAP, behind the tree of [`Value`]; callers can't tell
//! which is in use.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod automation;
mod client;
mod config;
mod console;
mod devices;
mod error;
mod events;
mod fault;
mod gate;
mod http;
pub mod inventory;
mod methods;
mod metrics;
mod network;
mod pbm;
mod properties;
mod session;
pub mod spec;
#[cfg(test)]
mod tests;
mod tls;
mod value;
mod wire;

pub use client::{About, Client};
pub use config::{Config, Credentials, PathStyle, Secret, Trust, WireChoice};
pub use devices::Devices;
pub use error::{Error, Kind, Result};
pub use events::Removal;
pub use fault::Fault;
pub use inventory::{Inventory, Vm};
pub use metrics::Metrics;
pub use network::{Datastore, Network};
pub use pbm::StoragePolicy;
pub use properties::ObjectContent;
pub use spec::{
    Allocation, Backing, BaseConfig, CloneSpec, ConfigSpec, Controller, CustomizationAdapter,
    CustomizationIdentity, CustomizationSpec, DeviceChange, Disk, DiskChange, DiskLocator, DiskMoveType,
    FixedIpv4, ManagedBy, NicKind, OVF_TRANSPORT_GUEST_INFO, Provisioning, RelocateSpec, VAppConfigSpec,
    VAppProperty, VirtualNic,
};
pub use tls::{Thumbprint, ThumbprintError};
pub use value::{MoRef, Object, Value};
pub use wire::WireKind;
